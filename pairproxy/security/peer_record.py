"""What is known of one paired peer, as it lies in its file, and what can stand there."""

import re
from collections.abc import Callable

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.certificates import check_profile
from pairproxy.security.identity import short_id

MOST_ADDRESSES = 16  # of one peer: a few networks at home and at work, with IPv4 and IPv6
NAME_CHARACTERS = 64
MOST_PATTERNS = 64  # of models that a peer may use
PATTERN_CHARACTERS = 256  # as long as the longest name of a model
_HOST_AND_PORT = re.compile(
    r"(?: \[ [0-9A-Fa-f:.]{2,45} (?:%[\w.-]{1,32})? \] | [\w.-]{1,253} ) : ([0-9]{1,5})",
    re.ASCII | re.VERBOSE,
)


class PeerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One paired peer. ``certificate`` is DER, base64 in the file; ``addresses`` are host:port, newest first.

    Unknown fields are refused: a right taken away by a newer version must not come back in an older one.
    """

    node: NodeId
    name: str
    certificate: bytes
    may_use_me: bool
    i_may_use: bool
    addresses: tuple[str, ...] = ()
    slots: int | None = None  # of this node that it may hold at once; None: peers.max_slots decides
    models: tuple[str, ...] = ()  # that it may use here, * and ? stand for text; (): all
    paired_at: int = 0  # seconds since 1970 by this machine's clock, for people; 0: nobody knows
    may_add_models: bool = False  # to this machine's Ollama; fills its disk: a person says it for each peer


def checked(
    record: PeerRecord, own: NodeId, device_id: Callable[[bytes], NodeId] = check_profile
) -> PeerRecord:
    """The record as it is kept: its name made printable. ``own`` is this node's device id.

    ``device_id`` tells that of a certificate, and raises StoreError for one that has not our profile.

    Raises StoreError, saying what to correct, if its certificate has not our profile or is not the node's, if
    the node is ourselves, or if there are too many addresses, slots or models, or one that is none.
    """
    if device_id(record.certificate) != record.node:
        raise StoreError("The certificate belongs to another device id. Pair with that machine again.")
    if record.node == own:
        raise StoreError("That is this machine itself. Pair with another one.")
    if len(record.addresses) > MOST_ADDRESSES or not all(map(_is_address, record.addresses)):
        raise StoreError(f"The addresses are not up to {MOST_ADDRESSES} times host:port. Correct them.")
    if record.slots is not None and record.slots < 1:
        raise StoreError("A peer that may use this machine has one slot at least. Or take the right away.")
    if not are_patterns(record.models):
        raise StoreError(
            f"The models are not up to {MOST_PATTERNS} names of up to {PATTERN_CHARACTERS} characters,"
            " in which * and ? stand for text. Correct them."
        )
    return msgspec.structs.replace(record, name=printable(record.name) or short_id(record.node))


def printable(text: str) -> str:
    """``text`` without control, invisible and direction-changing characters, 64 characters at most."""
    return "".join(character for character in text[: 4 * NAME_CHARACTERS] if character.isprintable())[
        :NAME_CHARACTERS
    ].strip()


def are_patterns(models: tuple[str, ...]) -> bool:
    """Whether these can be the models of a peer: printable, no longer than a name, and not too many."""
    are_names = all(0 < len(one) <= PATTERN_CHARACTERS and one.isprintable() for one in models)
    return are_names and len(models) <= MOST_PATTERNS


def _is_address(text: str) -> bool:
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and 0 < int(match[1]) < 65536
