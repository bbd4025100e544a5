"""A request as it is known to who answers with pairproxy.responses, on no connection."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from multidict import CIMultiDict, CIMultiDictProxy


class Question:
    """GET of a target."""

    method = "GET"
    version = (1, 1)
    keep_alive = True
    transport: Any = None

    def __init__(self, target: str = "/") -> None:
        self.raw_path = target
        self.path = urlsplit(target).path
        self.query = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
        self.headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

    def begun(self) -> None:
        """Nothing follows from it."""

    async def drain(self) -> None:
        """Nothing was written."""
