"""An outside judge: every byte that our ports send to a raw client in any test is read by h11 as well.

A client of tests records what it sent and received. After each test h11, a strict parser that shares nothing
with ours or aiohttp's, reads it all as a client would: an answer it does not accept fails the test.
"""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import h11

MOST_BYTES = (
    8 * 1024 * 1024
)  # kept of one connection: what follows is judged by tests of long streams themselves
REQUEST_LINE = re.compile(
    rb"(?:\A|\r\n|\n|\}|\]|0\r\n\r\n)([A-Z]+) [^ \r\n]+ HTTP/1\.[01]\r\n(?=[^\r\n]|\r\n)"
)


@dataclass
class Exchange:
    """What went over one connection of a client, both ways."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    """Whether the port ended it."""
    has_client_left: bool = False
    """Whether the client ended it, or its own side: the last answer may break off then."""

    @property
    def is_cut(self) -> bool:
        """Whether more came than was kept."""
        return len(self.received) > MOST_BYTES


class RecordingReader(asyncio.StreamReader):
    """A stream reader that notes what it is fed."""

    def __init__(self, exchange: Exchange, limit: int) -> None:
        super().__init__(limit=limit)
        self._exchange = exchange

    def feed_data(self, data: Any) -> None:
        """Note and read."""
        if not self._exchange.is_cut:
            self._exchange.received += data
        super().feed_data(data)

    def feed_eof(self) -> None:
        """Note and end."""
        self._exchange.has_ended = not self._exchange.has_client_left
        super().feed_eof()


class RecordingWriter(asyncio.StreamWriter):
    """A stream writer that notes what it sends."""

    def __init__(
        self,
        exchange: Exchange,
        transport: asyncio.WriteTransport,
        protocol: asyncio.StreamReaderProtocol,
        reader: asyncio.StreamReader,
    ) -> None:
        super().__init__(transport, protocol, reader, asyncio.get_running_loop())
        self._exchange = exchange

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Note and send."""
        if len(self._exchange.sent) <= MOST_BYTES:
            self._exchange.sent += data
        super().write(data)

    def write_eof(self) -> None:
        """Note and end this side."""
        self._exchange.has_client_left = True
        super().write_eof()

    def close(self) -> None:
        """Note and close."""
        self._exchange.has_client_left = True
        super().close()


EXCHANGES: list[Exchange] = []
"""Of the test that runs now."""


@dataclass(frozen=True)
class Verdict:
    """What h11 says: how many whole answers it saw, and what it does not accept."""

    answers: int
    fault: str | None = None
    is_incomplete: bool = False
    """Whether the fault is only that the last answer broke off."""


def judge(exchange: Exchange) -> Verdict:
    """Read all that came on a connection with h11, as the client of the requests that were sent."""
    methods = [found.decode() for found in REQUEST_LINE.findall(bytes(exchange.sent))]
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1024 * 1024)
    upgrade = [("Connection", "upgrade"), ("Upgrade", "any")] if b"\r\nUpgrade:" in exchange.sent else []
    fields = [("Host", "localhost"), *upgrade]
    data = bytes(exchange.received)
    answers = 0
    try:
        while data:
            method = methods[answers] if answers < len(methods) else "GET"
            client.send(h11.Request(method=method, target="/", headers=fields))
            client.send(h11.EndOfMessage())
            client.receive_data(data)
            if not _read_one(client, exchange):
                return Verdict(answers)
            answers += 1
            data, _ = client.trailing_data
            if data and client.their_state is not h11.DONE:
                return Verdict(answers, f"{len(data)} bytes follow an answer that was the last")
            client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1024 * 1024)
    except h11.RemoteProtocolError as error:
        is_incomplete = str(error).startswith(("peer closed connection", "peer unexpectedly closed"))
        return Verdict(answers, str(error), is_incomplete and answers < max(1, len(methods)))
    return Verdict(answers)


def _read_one(client: h11.Connection, exchange: Exchange) -> bool:
    """Read one answer; False: no more came of it, and that is nobody's fault, or it became a tunnel."""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            if exchange.is_cut or not exchange.has_ended:
                return False
            client.receive_data(b"")
        elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return False
        elif isinstance(event, h11.EndOfMessage):
            return True


def faults(*, may_break_off: bool) -> list[str]:
    """What h11 does not accept of what came since the last call.

    ``may_break_off``: the test is about answers that end too early, and h11 finds them incomplete.
    """
    verdicts = [(judge(exchange), exchange) for exchange in EXCHANGES]
    EXCHANGES.clear()
    return [
        f"{verdict.fault} in {bytes(exchange.received[:200])!r}"
        for verdict, exchange in verdicts
        if verdict.fault is not None and not (may_break_off and verdict.is_incomplete)
    ]
