"""The daemon, and a thread that burns as much processor time as its event loop takes: twice as slow."""

import hashlib
import runpy
import threading
import time

BURNT = bytes(1 << 20)  # half a millisecond of hashing, in which others may run Python
LOOK_S = 0.002


def burn() -> None:
    """As much as the main thread, never ahead of it."""
    loop = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    while True:
        while time.thread_time() < time.clock_gettime(loop):
            hashlib.sha256(BURNT).digest()
        time.sleep(LOOK_S)


if __name__ == "__main__":
    threading.Thread(target=burn, daemon=True).start()
    runpy.run_module("pairproxy", run_name="__main__", alter_sys=True)
