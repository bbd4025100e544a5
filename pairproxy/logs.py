"""The log: text or JSON, a line for each record, to standard error.

A thread writes the lines, because standard error may be a pipe whose reader sleeps, or a terminal that
somebody halted: that must not hold up a loop that carries replies. What finds no room is counted, and told.
"""

import contextlib
import json
import logging
import os
import queue
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

LIMIT_LINES = 4096  # that wait for a reader; about 10 MB, and a minute of the busiest log
GATHER_S = 0.02  # what is logged in that time is made and written at once: to wake for each costs more
FLUSH_S = 2.0  # at the end of the process, for a reader that takes nothing
TURN_S = 0.1  # between two looks whether a reader that took nothing takes something
FORMATS = ("text", "json")

_QUOTED = re.compile(r'[ "=\\]|^$')
_RESERVED = frozenset({"time", "level", "logger", "message", "exception"})


@contextlib.contextmanager
def to_stderr(level: str, form: str, file: RawIOBase | None = None) -> Iterator[None]:
    """Log to standard error inside, or to ``file``, which is closed then; ``form`` is one of FORMATS.

    Raises ValueError for another one.
    """
    root, before = logging.getLogger(), logging.getLogger().level
    with file or _standard_error() as stream:
        handler = Lines(stream)
        root.addHandler(handler)
        try:
            follow(level, form)
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(before)
            handler.close()


@contextlib.contextmanager
def _standard_error() -> Iterator[BinaryIO]:
    """Its bytes, with no lock that a thread could hold at the process's end; a service has none."""
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        replaced = getattr(sys.stderr, "buffer", None)
        with contextlib.nullcontext(replaced) if replaced else Path(os.devnull).open("wb") as stream:
            yield stream
        return
    with open(number, "wb", buffering=0, closefd=False) as stream:
        yield stream


def follow(level: str, form: str) -> None:
    """Log at ``level`` and as ``form`` from now on."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        if isinstance(handler, Lines):
            handler.setFormatter(_formatter(form))


def _formatter(form: str) -> logging.Formatter:
    if form not in FORMATS:
        raise ValueError(f"log format {form!r} is none of {FORMATS}")
    return JsonFormatter() if form == "json" else TextFormatter()


def one_line(text: str) -> str:
    """A message as one line: what others named cannot begin a line of its own, nor colour a terminal."""
    if text.isprintable():
        return text
    joined = " ".join(text.split())
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in joined)


class TextFormatter(logging.Formatter):
    """Local time, level, logger: message key=value ... The lines of an exception follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of an exception."""
        said = [
            one_line(record.getMessage()),
            *(f"{key}={_shown(one)}" for key, one in _fields(record).items()),
        ]
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {' '.join(said)}"
        lines = (one_line(part) for part in _exception(self, record).splitlines())
        return "\n".join([line, *(f"  {one}" for one in lines)])


class JsonFormatter(logging.Formatter):
    """One object: time (UTC), level, logger, message, the record's ``fields``, exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {key: value for key, value in _fields(record).items() if key not in _RESERVED}
        if exception := _exception(self, record):
            told["exception"] = exception
        return json.dumps(told, default=str)  # ASCII: nothing in it can end a line or turn its direction


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    """What was given with ``extra={"fields": ...}``."""
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _shown(value: object) -> str:
    """A value in a line: in quotes where it could be taken for more than one."""
    text = str(value)
    return text if text.isprintable() and not _QUOTED.search(text) else json.dumps(text)


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


class Lines(logging.Handler):
    """Hands each record to a thread that writes its line to ``stream`` (unbuffered, not closed by this)."""

    def __init__(self, stream: BinaryIO | RawIOBase) -> None:
        super().__init__()
        self._stream = stream
        self._given: queue.SimpleQueue[Callable[[], str] | None] = queue.SimpleQueue()  # None: the last
        self._count = self._written_count = 0  # of what was given, and of what is written
        self._written = threading.Condition()
        self._lost = 0
        self._is_closing = False
        self._hurry = threading.Event()
        self._writer = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a record into the queue; never waits. What may still change is made a line now."""
        if self._count - self._written_count >= LIMIT_LINES:
            self._lost += 1
            return
        is_settled = not (record.args or record.exc_info or record.stack_info)
        self._count += 1  # under the handler's lock
        line = partial(_line, self.formatter or TextFormatter(), record)
        self._given.put(line if is_settled else partial(str, line()))

    def flush(self) -> None:
        """Wait until all is written, for FLUSH_S at most; once closed, not again (logging asks)."""
        if self._is_closing:
            return
        count = self._count
        self._hurry.set()
        with self._written:
            self._written.wait_for(lambda: self._written_count >= count, FLUSH_S)
        self._hurry.clear()

    def close(self) -> None:
        """Write what waits, for FLUSH_S at most, and end the thread."""
        if not self._is_closing:
            self.flush()
            self._is_closing = True
            self._hurry.set()
            self._given.put(None)
            self._writer.join(TURN_S)
        super().close()

    def _write_all(self) -> None:
        """The thread's work: until the last line."""
        is_last = False
        while not is_last:
            given = self._gathered()
            is_last = given[-1] is None
            self._write([line() for line in given if line is not None])
            if self._lost and self._given.empty():
                lost, self._lost = self._lost, 0
                self._write([self.format(_lost(lost))])
            with self._written:
                self._written_count += len(given)
                self._written.notify_all()

    def _gathered(self) -> list[Callable[[], str] | None]:
        """Wait for something; it and what comes in the next GATHER_S."""
        given = [self._given.get()]
        self._hurry.wait(GATHER_S)
        with contextlib.suppress(queue.Empty):
            while given[-1] is not None:
                given.append(self._given.get_nowait())
        return given

    def _write(self, lines: Sequence[str]) -> None:
        data = memoryview("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more; there is nobody to tell
            while data:
                written = self._stream.write(data)
                if written:
                    data = data[written:]
                elif not self._wait():
                    return

    def _wait(self) -> bool:
        """Wait for room in a stream that does not wait by itself; False: it is over."""
        if self._is_closing:
            return False
        if sys.platform == "win32":
            time.sleep(TURN_S)
        else:
            select.select([], [self._stream], [], TURN_S)
        return True


def _line(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    try:
        return formatter.format(record)
    except Exception as error:  # noqa: BLE001 logging would print the arguments, and go on
        return formatter.format(_unmade(record, error))


def _unmade(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    text = "a line of the log could not be made: %s"
    return logging.LogRecord(record.name, record.levelno, __file__, 0, text, (type(error).__name__,), None)


def _lost(count: int) -> logging.LogRecord:
    text = "%d lines of the log were lost: whatever reads standard error did not take them"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (count,), None)
