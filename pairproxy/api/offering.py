"""Whether a node offers slots to its peers: the words for why not, what a person wants, the answer."""

import time
from typing import Annotated, Literal

import msgspec

LONGEST_DRAIN_S = 366 * 86_400.0  # a year; who wants longer leaves the time out

PEER_SAYS = {
    "drained": "its owner has drained it",
    "never": "its owner does not share it",
    "battery": "it runs on battery",
    "memory": "it has hardly any memory left",
    "owner": "its owner is using it",
    "no-engine": "no engine answers there, so it only sends requests",
    "unknown": "it does not know yet whether its owner is using it",
}
"""The words of core.documents.Withheld as half a sentence about another node."""
_OTHER = "it says why in a word that this version does not know"


def peer_says(withheld: str) -> str:
    """Why a peer offers nothing, as half a sentence; "" where it offers its slots."""
    return PEER_SAYS.get(withheld, _OTHER) if withheld else ""


def until(until_unix: float | None) -> str:
    """When a drain ends by itself, in local time, with a space before it; "": a person ends it."""
    if until_unix is None:
        return ""
    try:
        return time.strftime(" until %Y-%m-%d %H:%M", time.localtime(until_unix))
    except (ValueError, OverflowError, OSError):  # a moment that no calendar has, from a file
        return ""


class OfferStatus(msgspec.Struct, frozen=True):
    """Whether this node offers slots to its peers."""

    share: str = "always"  # peers.share
    withheld: str = ""  # why it offers none (core.documents.Withheld); "": it offers them
    why: str = ""  # the same as a sentence, with what to do
    since_unix: float | None = None  # seconds of the epoch, since when it offers none
    until_unix: float | None = None  # when a drain ends by itself
    guests: int = 0  # requests of peers that run here now
    unknown: tuple[str, ...] = ()  # what of the machine's use cannot be read here, for share = "idle"


class DrainWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /drain. drain: no new work of peers, for so many seconds or until resume. look: only answer."""

    want: Literal["drain", "resume", "look"]
    for_s: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_DRAIN_S)] | None = None


class DrainAnswer(msgspec.Struct, frozen=True):
    """What POST /drain answers."""

    node: str
    offer: OfferStatus
