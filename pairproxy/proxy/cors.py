"""Which web pages may use a port, and the headers that tell their browsers so: Ollama's rules, word for word.

    no Origin, or that of the Host itself  -> no matter of CORS
    an Origin that is not in the list      -> 403 without a body (gate; RELAYED: Ollama's own, or its reply)
    OPTIONS                                -> 204 with what may be asked
    all else                               -> the reply, with the Origin repeated in it

Which of it is ours to say depends on the engine that a port stands for (``Rules``). Never said: that pages
of the internet may reach the local network (Access-Control-Allow-Private-Network).
"""

import re
from enum import Enum

Lines = tuple[tuple[str, str], ...]

_ALLOWED = re.compile(
    r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::[0-9]{1,5})?"
    r"|(?:app|file|tauri|vscode-webview|vscode-file)://[^\s@/?#]*"
)
_WELL_FORMED = re.compile(
    r"null|[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE
)
_METHODS = "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS"
_HEADERS = (
    "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,Openai-Beta,X-Stainless-Arch,"
    "X-Stainless-Async,X-Stainless-Custom-Poll-Interval,X-Stainless-Helper-Method,X-Stainless-Lang,"
    "X-Stainless-Os,X-Stainless-Package-Version,X-Stainless-Poll-Helper,X-Stainless-Retry-Count,"
    "X-Stainless-Runtime,X-Stainless-Runtime-Version,X-Stainless-Timeout"
)
_MAX_AGE_S = 43200
PREFIX = b"access-control-"


class Rules(Enum):
    """Who tells a browser what it may do at a port."""

    RELAYED = "Ollama itself, of every Origin; we say the same for what it did not answer"
    OURS = "we, as Ollama would: the engine's own server has other rules or none"
    KEPT = "the engine, whose rules are its own affair: what a page asks is answered by it alone"


def rules_for(kind: str) -> Rules:
    """The rules at the port of an engine of this kind."""
    if kind == "ollama":
        return Rules.RELAYED
    return Rules.OURS if kind in ("embedded", "paced") else Rules.KEPT


def is_own(origin: str, host: str) -> bool:
    """Whether a page was served by the very port it asks."""
    return origin in (f"http://{host}", f"https://{host}")


def is_allowed(origin: str) -> bool:
    """Whether pages of this origin may use a port; browser extensions may not."""
    return _ALLOWED.fullmatch(origin) is not None


def is_well_formed(origin: str) -> bool:
    """Whether a browser would send this Origin: nothing that two readers could take for different hosts."""
    return _WELL_FORMED.fullmatch(origin) is not None


def on_reply(origin: str) -> Lines:
    """What a reply to a page says."""
    return (("Access-Control-Allow-Origin", origin), ("Vary", "Origin"))


def on_preflight(origin: str | None) -> Lines:
    """What the 204 to OPTIONS says, in the order in which Go writes headers; None: no page asked."""
    if origin is None:
        return ()
    return (
        ("Access-Control-Allow-Headers", _HEADERS),
        ("Access-Control-Allow-Methods", _METHODS),
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Max-Age", str(_MAX_AGE_S)),
        ("Vary", "Origin"),
        ("Vary", "Access-Control-Request-Method"),
        ("Vary", "Access-Control-Request-Headers"),
    )
