"""What the head of a request says to a port, beside its line: read once for each head, not for each request.

Programs send the same head again and again, and it is remembered (head).
"""

from multidict import CIMultiDictProxy

from pairproxy.proxy import headers

NAME_LENGTH = 64  # of a run or a chain


class Said:
    """What the ports ask of the headers of a request."""

    __slots__ = (
        "_raw", "_to_engine", "chain", "coding", "content_type", "hosts", "is_chunked", "is_coded",
        "is_formed", "is_local", "origins", "run", "site", "trace",
    )  # fmt: skip

    def __init__(self, fields: CIMultiDictProxy[str], raw: headers.Headers) -> None:
        self._raw = raw
        self._to_engine: headers.Headers | None = None
        self.hosts: list[str] = fields.getall("Host", [])
        self.origins: list[str] = fields.getall("Origin", [])
        self.site: str | None = fields.get("Sec-Fetch-Site")
        codings: list[str] = fields.getall("Content-Encoding", [])
        self.is_coded: bool = bool(codings)
        self.coding: str = ", ".join(codings)
        self.content_type: str = fields.get("Content-Type", "")
        self.is_chunked: bool = "Transfer-Encoding" in fields
        self.run: str = _name(fields.get(headers.RUN, ""))
        self.chain: str = _name(fields.get(headers.CHAIN, ""))
        self.trace: str = headers.trace_of(fields.getall(headers.TRACE, []))
        self.is_local: bool = fields.get(headers.LOCAL, "").lower() == "true"
        """Whether the request may not leave this machine: its client said so."""
        self.is_formed = False
        """Whether its form was looked at, and is a good one (form)."""

    def to_engine(self) -> headers.Headers:
        """The headers as an engine of this node gets them."""
        if self._to_engine is None:
            self._to_engine = headers.to_engine(self._raw)
        return self._to_engine


def _name(text: str) -> str:
    """A name that the client gave in a header of ours; "" where it gave none, or none that can be shown."""
    name = text[:NAME_LENGTH]
    return name if name.isprintable() else ""
