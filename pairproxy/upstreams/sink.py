"""Who takes a reply. A class, so that compiled a chunk goes from one socket to the other by direct calls."""

from collections.abc import Awaitable, Callable


class Sink:
    """Takes the body of one reply. All but ``drain`` are called from the transport, and must not wait."""

    def write(self, data: bytes) -> None:
        """Pass raw, framed bytes on."""
        raise NotImplementedError

    def see(self, part: bytes) -> None:
        """Look at decoded bytes of the body, after they were passed on."""

    def buffered(self) -> int:
        """Bytes written that the client has not taken yet."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written. Raises ConnectionError."""
        raise NotImplementedError


class FunctionSink(Sink):
    """One of functions, for who is no class of its own."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        see: Callable[[bytes], object],
        drain: Callable[[], Awaitable[None]],
        buffered: Callable[[], int],
    ) -> None:
        self._write = write
        self._see = see
        self._drain = drain
        self._buffered = buffered

    def write(self, data: bytes) -> None:
        """Call the function of that name."""
        self._write(data)

    def see(self, part: bytes) -> None:
        """Call the function of that name."""
        self._see(part)

    def buffered(self) -> int:
        """Call the function of that name."""
        return self._buffered()

    async def drain(self) -> None:
        """Call the function of that name."""
        await self._drain()
