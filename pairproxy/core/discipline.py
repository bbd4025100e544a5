"""Finds clients that throw away what is cached: their prompts share most of their text, but not its start.

A prompt is compared with the last few of the same client by digests of its lines (Request.outline). What
comes after the first line that differs is read again each time, however much of it is the same. No text is
kept here.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

from pairproxy.core.models import ModelName, Outline, Request

BYTES_PER_TOKEN: Final = 4  # as prompts are measured
MIN_LOST_TOKENS: Final = 512  # each time; less is not worth a person's attention
SHARED_PART = 0.5  # of a prompt whose lines are found in an earlier one, but behind a line that differs
REMEMBERED: Final = 8  # prompts of one client and model: its tools and sub-agents ask by turns
MOST_CLIENTS: Final = 64  # whose prompts are remembered: 10 KB each prompt; least recently seen first out
MOST_FINDINGS: Final = 64  # kept; the one seen least recently goes first
MIN_TIMES: Final = 2  # once may be a new version of a prompt


@dataclass(frozen=True, slots=True)
class Finding:
    """Where the prompts of a client part early, how often, and what that costs each time."""

    client: str
    model: ModelName
    part: str  # tools, system, message 1 ...
    character: int  # of that part, at which the line begins that differed last
    times: int
    lost_tokens: int  # read again each time although an earlier prompt had them, on average; at least

    @property
    def sentence(self) -> str:
        """For a person."""
        where = f"the {self.part}" if self.part in ("system prompt", "tools") else self.part
        return (
            f"Requests from {self.client or 'one client'} for {self.model} differ in the line at character "
            f"{self.character} of {where}, which throws away {self.lost_tokens:,} cached tokens each time. "
            "Put what changes at the end."
        )


class _Earlier(NamedTuple):
    """A prompt that was seen: its bytes, and its lines (Outline)."""

    size: int
    lines: tuple[int, ...]


class _Compared(NamedTuple):
    """A prompt beside an earlier one: the nearest has the most bytes in common with it."""

    common_bytes: int
    lost_bytes: int  # of these, the ones behind the first line that differs
    parting: int  # the number of that line

    def is_waste_of(self, ends: list[int]) -> bool:
        """Whether much of a prompt whose lines end there could have come from a cache, and did not."""
        if self.parting >= len(ends):
            return False
        return self.lost_bytes >= max(MIN_LOST_TOKENS * BYTES_PER_TOKEN, SHARED_PART * ends[-1])


class Discipline:
    """Looks at each prompt of this node's clients as it arrives."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, ModelName], deque[_Earlier]] = OrderedDict()
        self._found: OrderedDict[tuple[str, ModelName, str], Finding] = OrderedDict()

    def look(self, request: Request) -> None:
        """Compare a prompt with the earlier ones of its client, then remember it."""
        outline = request.outline
        if outline is None or not outline.lines:
            return
        key = (request.client, request.model)
        earlier = self._seen.setdefault(key, deque(maxlen=REMEMBERED))
        self._seen.move_to_end(key)
        if len(self._seen) > MOST_CLIENTS:
            self._seen.popitem(last=False)
        if _is_again(outline.lines, earlier):
            return
        ends = outline.ends()
        nearest = _nearest(outline.lines, ends, earlier)
        if nearest is not None and nearest.is_waste_of(ends):
            self._note(request, outline, nearest)
        earlier.append(_Earlier(ends[-1], outline.lines))

    def findings(self) -> list[Finding]:
        """What was seen more than once; what cost most comes first."""
        seen = [one for one in self._found.values() if one.times >= MIN_TIMES]
        return sorted(seen, key=lambda one: -one.times * one.lost_tokens)

    def _note(self, request: Request, outline: Outline, compared: _Compared) -> None:
        part, character = outline.place_of(compared.parting)
        key = (request.client, request.model, part)
        lost = compared.lost_bytes // BYTES_PER_TOKEN
        known = self._found.get(key, Finding(request.client, request.model, part, character, 0, lost))
        mean = round(known.lost_tokens + (lost - known.lost_tokens) / (known.times + 1))
        self._found[key] = replace(known, character=character, times=known.times + 1, lost_tokens=mean)
        self._found.move_to_end(key)
        if len(self._found) > MOST_FINDINGS:
            self._found.popitem(last=False)


def _is_again(lines: tuple[int, ...], earlier: deque[_Earlier]) -> bool:
    """Whether it was seen, so that nothing of it is lost; it is the latest then."""
    for number, one in enumerate(earlier):
        if len(one.lines) == len(lines) and one.lines == lines:
            del earlier[number]
            earlier.append(one)
            return True
    return False


def _nearest(lines: tuple[int, ...], ends: list[int], earlier: Iterable[_Earlier]) -> _Compared | None:
    """The earlier prompt that has most in common. ``ends``: the bytes up to and with each line.

    The largest first: one that is smaller than what another has in common need not be looked at. Of the steps
    of a chain that is all but the last.
    """
    nearest, rests = None, dict[int, set[int]]()
    for one in sorted(earlier, key=attrgetter("size"), reverse=True):
        if nearest is not None and one.size < nearest.common_bytes:
            break
        parting = _common_lines(lines, one.lines)
        if parting not in rests:
            rests[parting] = set(lines[parting:])
        again = rests[parting].intersection(one.lines[parting:])  # one that recurs counts once
        lost = sum(map(Outline.bytes_of, again))
        compared = _Compared((ends[parting - 1] if parting else 0) + lost, lost, parting)
        nearest = compared if nearest is None else max(nearest, compared)
    return nearest


def _common_lines(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many lines two prompts begin with alike."""
    low, high = 0, min(len(one), len(other))
    if one[:1] != other[:1]:
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
