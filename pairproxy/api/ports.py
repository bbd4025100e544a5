"""The client ports of a daemon: what each of them does at present, and what a person wants of one."""

from typing import Literal

import msgspec

PortState = Literal["open", "closed", "held", "given"]
"""open: answered by this daemon. closed: by nobody, for no node could serve (clients that start an engine of
their own look for a refused connection). held: by another program, the engine itself as a rule. given: left
to the engine, because it was told so (`pairproxy release`)."""


class PortStatus(msgspec.Struct, frozen=True):
    """One client port: the front of the engines of one kind."""

    kind: str
    port: int
    state: PortState
    hosts: tuple[str, ...] = ()  # addresses on which it is open
    holder: str | None = None  # who has it, for a person, where it is held
    why: str = ""  # one sentence: what it means and what to do


class PortWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /ports.

    take: have the port the moment it is free (for 60 s it is tried all the time) and let requests wait
    for the engine meanwhile. give: close it and leave it alone. usual: by the rules again. look: nothing
    but the answer, after engines and ports were looked at anew.
    """

    want: Literal["take", "give", "usual", "look"]
    port: int = 0  # 0: every client port


class PortsAnswer(msgspec.Struct, frozen=True):
    """What POST /ports answers: all client ports after it."""

    node: str
    ports: tuple[PortStatus, ...]
