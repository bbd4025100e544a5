"""The files of the page: a fixed table of paths, read once, with the headers that keep other sites out.

Whoever may look at the admin port may look at the page; the port has checked Host and Origin before. No path
is ever looked up on the disk.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.resources import files

from pairproxy.responses import Asked, Response, StreamResponse

Handler = Callable[[Asked], Awaitable[StreamResponse]]

PAGE_BYTES = 100_000  # of all files together: the page opens at once, also through a slow tunnel
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # a browser that knows it refuses innerHTML altogether
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",  # asks each time, and hears 304: a newer daemon has a newer page
}


def read_page() -> dict[str, bytes]:
    """Every file of the page: the path it is served at -> its content."""
    found = {}
    for entry in (files("pairproxy.web") / "page").iterdir():
        if entry.is_file() and entry.name.rpartition(".")[2] in TYPES:
            found["/" if entry.name == "index.html" else f"/page/{entry.name}"] = entry.read_bytes()
    return found


def page_handlers() -> dict[str, Handler]:
    """Who answers each path of the page; reads its files."""
    return {path: _handler(path, content) for path, content in read_page().items()}


def _handler(path: str, content: bytes) -> Handler:
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    kind = TYPES["html" if path == "/" else path.rpartition(".")[2]]
    headers = {**HEADERS, "ETag": tag}

    async def answer(request: Asked) -> StreamResponse:
        known = request.headers.get("If-None-Match", "")
        if known == "*" or tag in (one.strip().removeprefix("W/") for one in known.split(",")):
            return Response(status=304, headers=headers)
        return Response(body=content, content_type=kind, charset="utf-8", headers=headers)

    return answer
