"""Ollama's own check of a page's Origin, before any script of a fake engine."""

from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script

_HOSTS = ("localhost", "127.0.0.1", "0.0.0.0")
_DEFAULTS = tuple(f"{scheme}://{host}" for scheme in ("http", "https") for host in _HOSTS)
_PREFIXES = (*(f"{one}:" for one in _DEFAULTS), "app://", "file://", "tauri://", "vscode-webview://",
             "vscode-file://")  # fmt: skip


class Guarded:
    """A script behind that check: 403 without a body for who is not in the list, as its router answers.

    ``refused`` holds the requests that the script never saw; ``more`` is what OLLAMA_ORIGINS adds.
    """

    def __init__(self, script: Script, *more: str) -> None:
        self.script = script
        self.more = more
        self.refused: list[ParsedRequest] = []

    async def __call__(self, request: ParsedRequest, connection: EngineConnection) -> None:
        origin = (request.header("Origin") or b"").decode("latin-1")
        host = (request.header("Host") or b"").decode("latin-1")
        if not origin or origin in (f"http://{host}", f"https://{host}") or self._is_listed(origin):
            await self.script(request, connection)
            return
        self.refused.append(request)
        await connection.send(scripts.head(403, ("Content-Length", "0")))

    def _is_listed(self, origin: str) -> bool:
        return origin in (*_DEFAULTS, *self.more) or origin.startswith(_PREFIXES)
