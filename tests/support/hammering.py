"""Clients that come all the time: a program that counts what happens to each connection.

    python -m tests.support.hammering PORT STOP_FILE

Each client connects, sends a small chat, reads the whole reply and comes again at once, until STOP_FILE
exists; then a JSON object of the counts is printed. What was refused is never tried again.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from pathlib import Path

CLIENTS = 4
PATIENCE_S = 20.0
BODY = json.dumps(
    {
        "model": "paced:1b",
        "stream": False,
        "messages": [{"role": "user", "content": "hi"}],
        "options": {"num_predict": 1},
    }
).encode()
REQUEST = (
    b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: " + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
)


def main() -> None:
    """Hammer a port of loopback until told to stop."""
    port, stop = int(sys.argv[1]), Path(sys.argv[2])
    counts = {"whole": 0, "refused": 0, "broken": 0, "other": 0, "longest_s": 0.0}
    lock = threading.Lock()

    def come() -> None:
        while not stop.exists():
            started = time.monotonic()
            what = ask(port)
            with lock:
                counts[what] += 1
                counts["longest_s"] = max(counts["longest_s"], time.monotonic() - started)
            if what != "whole":
                time.sleep(0.002)  # a port that refuses would take a whole core

    clients = [threading.Thread(target=come) for _ in range(CLIENTS)]
    for one in clients:
        one.start()
    print("started", flush=True)  # noqa: T201 to whoever started it
    for one in clients:
        one.join()
    print(json.dumps(counts))  # noqa: T201


def ask(port: int) -> str:
    """One connection: whole, refused (nobody listens), broken (cut off under way), or another answer."""
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        except ConnectionRefusedError:
            return "refused"
        except OSError:
            return "broken"
        try:
            connection.sendall(REQUEST)
            reply = b""
            while part := connection.recv(65536):
                reply += part
        except OSError:
            return "broken"
    if reply.startswith(b"HTTP/1.1 200 ") and b'"done":true' in reply.replace(b" ", b""):
        return "whole"
    return "broken" if not reply or reply.startswith(b"HTTP/1.1 200 ") else "other"


if __name__ == "__main__":
    main()
