import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO

import pytest

from pairproxy import logs
from pairproxy.logs import LIMIT_LINES, JsonFormatter, Lines, TextFormatter, follow, one_line

HOSTILE = 'x\n2026-01-01 00:00:00,000 ERROR pairproxy: forged\r\x1b[31m\u2028\u202e\x00"'


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    """A record as a logger makes one."""
    made = logging.LogRecord("pairproxy.x", logging.WARNING, __file__, 1, message, arguments, None)
    made.__dict__.update(more)
    return made


def failed() -> Any:
    """What logging keeps of an exception."""
    try:
        raise ValueError("first\nsecond\x1b[0m")
    except ValueError as error:
        return type(error), error, error.__traceback__


@contextmanager
def piped() -> Iterator[tuple[Lines, BinaryIO]]:
    """A handler that writes into a pipe, and the pipe's other end."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as taken, os.fdopen(writing, "wb", buffering=0) as stream:
        handler = Lines(stream)
        handler.setFormatter(TextFormatter())
        try:
            yield handler, taken
        finally:
            handler.close()


def test_text_is_one_line() -> None:
    """Time, level, logger and message; what others named can neither begin a line nor colour a terminal."""
    line = TextFormatter().format(record("peer %s left", HOSTILE))
    assert line.split(" ", 2)[2].startswith("WARNING pairproxy.x: peer x 2026-01-01")
    assert line.isprintable()
    named = TextFormatter().format(record("left", fields={"node": HOSTILE, "n": 1, "empty": ""}))
    assert named.isprintable()
    assert named.endswith(r'\u0000\"" n=1 empty=""')
    assert one_line("as it was: ü, 漢") == "as it was: ü, 漢"


def test_the_lines_of_an_exception_are_indented() -> None:
    """None of them can be taken for a record."""
    first, *others = TextFormatter().format(record("broke", exc_info=failed())).splitlines()
    assert first.endswith("WARNING pairproxy.x: broke")
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in others)
    assert any("ValueError: first" in line for line in others)


def test_json_is_one_object() -> None:
    """A line of ASCII with time, level, logger, message, the fields, and the exception."""
    made = record("peer %s left", HOSTILE, fields={"node": HOSTILE, "n": 1, "time": 0}, exc_info=failed())
    line = JsonFormatter().format(made)
    assert line.isascii()
    assert line.isprintable()
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == (
        "warning",
        "pairproxy.x",
        f"peer {HOSTILE} left",
    )
    assert (told["node"], told["n"]) == (HOSTILE, 1)
    assert "ValueError: first\nsecond" in told["exception"]
    when = datetime.fromisoformat(told["time"])
    assert when.utcoffset() is not None
    assert abs(when.timestamp() - made.created) < 0.001


def test_what_cannot_be_formatted_is_told_without_its_arguments() -> None:
    """A record of somebody's library that does not fit its own text is no fault of the log."""
    with piped() as (handler, taken):
        handler.emit(record("%d", "CANARY"))
        handler.emit(record("next"))
        handler.flush()
        assert taken.readline().endswith(b"pairproxy.x: a line of the log could not be made: TypeError\n")
        assert taken.readline().endswith(b"next\n")


def test_who_does_not_read_holds_nobody_up() -> None:
    """Lines wait, then are lost and counted; who reads at last gets those that waited, and the number."""
    with piped() as (handler, taken):
        line = "x" * 1000
        count = LIMIT_LINES + 2000
        for _ in range(count):
            handler.emit(record(line))
        found: list[bytes] = []
        reading = threading.Thread(target=lambda: found.extend(iter(taken.readline, b"end\n")), daemon=True)
        reading.start()
        handler.flush()
        handler.emit(record("last"))
        handler.flush()
        os.write(handler._stream.fileno(), b"end\n")
        reading.join(10.0)
        (lost,) = [one for one in found if b"lines of the log were lost" in one]
        number = int(lost.split(b"pairproxy.logs: ")[1].split()[0])
        assert number > 0
        assert len([one for one in found if one.endswith(b"x\n")]) == count - number
        assert found[-1].endswith(b"last\n")


def test_lines_tell_what_was_so_and_come_in_order() -> None:
    """A list or a format that changes after something was logged changes no line of it."""
    with piped() as (handler, taken):
        names = ["first"]
        handler.emit(record("%s", names))
        handler.emit(record("second", fields={"n": 1}))
        names[0] = "changed"
        handler.setFormatter(JsonFormatter())
        handler.emit(record("third"))
        handler.flush()
        lines = [taken.readline() for _ in range(3)]
        assert lines[0].endswith(b"pairproxy.x: ['first']\n")
        assert lines[1].endswith(b"pairproxy.x: second n=1\n")
        assert json.loads(lines[2])["message"] == "third"


def test_nobody_there_is_no_fault() -> None:
    """A reader that has gone: lines go nowhere, and closing returns."""
    with piped() as (handler, taken):
        taken.close()
        for _ in range(3):
            handler.emit(record("x"))
        handler.flush()
    assert not handler._writer.is_alive()


def test_a_stalled_reader_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing gives up after its time."""
    monkeypatch.setattr(logs, "FLUSH_S", 0.05)
    with piped() as (handler, taken):
        for _ in range(200):
            handler.emit(record("x" * 1000))
        handler.close()
        assert handler._written_count < handler._count
        monkeypatch.setattr(logs, "FLUSH_S", 3600.0)
        handler.flush()  # as logging does at the end of the process
        threading.Thread(target=taken.read, daemon=True).start()
        handler._writer.join(10.0)
        assert not handler._writer.is_alive()


def test_level_and_format_follow_the_settings(capfd: pytest.CaptureFixture[str]) -> None:
    """Both can change while the daemon runs; afterwards the root logger is as it was."""
    root, log = logging.getLogger(), logging.getLogger("pairproxy.test")
    before = root.level, list(root.handlers)
    with logs.to_stderr("info", "text"):
        log.debug("no")
        log.info("one")
        follow("debug", "json")
        log.debug("two")
        follow("error", "text")
        log.warning("no")
    assert (root.level, root.handlers) == before
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("INFO pairproxy.test: one")
    assert json.loads(second)["message"] == "two"


def test_another_format_is_refused() -> None:
    """Settings know the two; a third is a mistake in the code."""
    with pytest.raises(ValueError, match="xml"), logs.to_stderr("info", "xml"):
        pass
    assert not [one for one in logging.getLogger().handlers if isinstance(one, Lines)]


@pytest.mark.parametrize("there", [None, io.TextIOWrapper(io.BytesIO()), io.StringIO()])
def test_standard_error_may_be_something_else(monkeypatch: pytest.MonkeyPatch, there: Any) -> None:
    """A service may have none, and who calls may have put something in its place."""
    monkeypatch.setattr(sys, "stderr", there)
    with logs.to_stderr("info", "text"):
        logging.getLogger("pairproxy.test").info("said")
    if isinstance(there, io.TextIOWrapper):
        there.seek(0)
        assert there.read().endswith("said\n")
