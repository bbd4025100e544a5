"""Asking an engine, or whoever has a port of loopback, from a command: short questions with short answers."""

import json
import socket
from dataclasses import dataclass

HOST = "127.0.0.1"
ASK_S = 3.0  # an engine that loads a model answers these within a tenth
CONNECT_S = 0.5
ANSWER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``body`` is bounded."""

    status: int
    body: bytes


def ask(
    port: int, path: str, *, method: str = "GET", host: str = HOST, timeout_s: float = ASK_S
) -> Answer | None:
    """One request; None if nobody answers HTTP there in time."""
    from http.client import HTTPConnection, HTTPException  # a daemon that never asks has no use for it

    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, response.read(ANSWER_BYTES))
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def answers(kind: str, port: int, *, host: str = HOST) -> bool:
    """Whether an engine of that kind answers there. A front of ours does too, for it speaks as the engine."""
    if kind == "ollama":
        answer = ask(port, "/", host=host)
        return answer is not None and answer.status == 200 and answer.body.strip() == b"Ollama is running"
    if kind == "lmstudio":
        answer = ask(port, "/v1/models", host=host)  # it says 200 to unknown paths, so the body counts
        return answer is not None and answer.status == 200 and _has(answer.body, "data")
    return ask(port, "/", host=host) is not None


def is_refused(port: int, host: str = HOST) -> bool:
    """Whether nobody listens there."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _has(body: bytes, field: str) -> bool:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and field in told
