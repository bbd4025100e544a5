"""Copying a model between two nodes: what is wished for, and the lines that tell how it goes."""

from typing import Annotated, Literal

import msgspec

CopyState = Literal["checking", "copying", "verifying", "done", "failed"]
"""checking: what is there, and whether it fits. copying: bytes come. verifying: Ollama reads them
again, which takes as long as its disk does. done, failed: the last line."""


Whole = Annotated[int, msgspec.Meta(ge=0)]
Number = Annotated[float, msgspec.Meta(ge=0)]


class CopyWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /replicate: exactly one of ``to`` and ``source`` is a paired node's id, the other one is empty.

    ``limit_bytes_per_s``: as fast as that at most; 0: as fast as it goes.
    """

    model: str
    to: str = ""
    source: str = ""
    limit_bytes_per_s: Whole = 0


class PeerCopyWish(msgspec.Struct, frozen=True):
    """What the node that has a model asks the one that shall have it."""

    model: str
    limit_bytes_per_s: Whole = 0


class CopyProgress(msgspec.Struct, frozen=True):
    """One line. Every line tells all; those of one copy come at least once a second."""

    node: str  # who tells: the daemon that was asked
    state: CopyState
    model: str
    peer: str  # name of the other node
    is_to_here: bool
    blob: Whole = 0  # which part of the model comes now, from 1
    blobs: Whole = 0
    done_bytes: Whole = 0  # those that were there before included
    total_bytes: Whole = 0
    bytes_per_s: Number | None = None  # of the last seconds
    left_s: Number | None = None
    was_there: bool = False  # with `done`: the very same model was there already
    is_identical: bool = True  # with `done`: Ollama gave it the same digest
    problem: str = ""  # what goes wrong at present, and is tried again
    error: str = ""  # with `failed`: why, and what to do
