"""How much of this machine's graphics cards programs use that are neither an engine nor pairproxy.

NVIDIA's driver tells it for each process. Where it does not (Windows, old cards), and for AMD, only the use
of the whole card is known: it is somebody else's while nothing of ours is at work, and unknown while it is.
Of other cards, and of Apple's, nothing is known here.
"""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Protocol

DRM = Path("/sys/class/drm")
BUSY = "card[0-9]*/device/gpu_busy_percent"  # of amdgpu
MOST_CARDS = 16  # looked at; no machine of one owner has more


class Cards(Protocol):
    """The cards of one maker. A look may take some ms: for a thread."""

    def others(self, ours: Collection[int], *, is_alone: bool) -> float | None:
        """The part that others use of the card they use most, 0 to 1; None: unknown, at present at least."""

    def close(self) -> None:
        """Let go of the driver."""


class Graphics:
    """All cards of this machine whose use can be read."""

    def __init__(self, find: Callable[[], Iterable[Cards]] | None = None) -> None:
        """``find`` looks for them, when they are asked for the first time."""
        self._find = find or find_cards
        self._cards: list[Cards] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is any whose use can be read; after the first look."""
        return bool(self._cards)

    def others(self, ours: Collection[int], *, is_alone: bool) -> float | None:
        """``ours``: processes that do not count. ``is_alone``: nothing of ours was at work meanwhile."""
        if self._cards is None:
            self._cards = [*self._find()]
        parts = [card.others(ours, is_alone=is_alone) for card in self._cards]
        return max((part for part in parts if part is not None), default=None)

    def close(self) -> None:
        """Let go of the drivers: a laptop's card sleeps only while nobody has it open."""
        for card in self._cards or ():
            card.close()
        self._cards = None


def find_cards(drm: Path = DRM, library: Callable[[], Any] | None = None) -> list[Cards]:
    """Those of NVIDIA, if its driver is there, and those of AMD on Linux."""
    found: list[Cards] = []
    nvml = (library or _nvml)()
    if nvml is not None:
        found.append(NvidiaCards(nvml))
    if next(drm.glob(BUSY), None) is not None:
        found.append(AmdCards(drm))
    return found


def _nvml() -> Any:
    """NVIDIA's library, ready; None: there is no driver."""
    if sys.platform == "darwin":
        return None
    with contextlib.suppress(Exception):  # it says in many ways that there is none
        import pynvml

        pynvml.nvmlInit()
        return pynvml
    return None


class NvidiaCards:
    """By NVIDIA's management library (pynvml)."""

    def __init__(self, nvml: Any) -> None:
        """``nvml``: the library, ready."""
        self._nvml = nvml
        self._seen: dict[int, int] = {}  # by card: the time of its last sample, us of its own clock

    def others(self, ours: Collection[int], *, is_alone: bool) -> float | None:
        """See Cards."""
        try:
            count = min(self._nvml.nvmlDeviceGetCount(), MOST_CARDS)
        except self._nvml.NVMLError:
            return None
        parts = [self._of_card(index, ours, is_alone=is_alone) for index in range(count)]
        return max((part for part in parts if part is not None), default=None)

    def _of_card(self, index: int, ours: Collection[int], *, is_alone: bool) -> float | None:
        nvml = self._nvml
        try:
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            samples = self._samples(card, index)
            if samples is None:
                return int(nvml.nvmlDeviceGetUtilizationRates(card).gpu) / 100 if is_alone else None
        except nvml.NVMLError:
            return None
        by_process = defaultdict(list)
        for sample in samples:
            self._seen[index] = max(self._seen.get(index, 0), sample.timeStamp)
            if sample.pid not in ours:
                by_process[sample.pid].append(min(sample.smUtil, 100))
        used: float = sum(sum(some) / len(some) for some in by_process.values())
        return min(used / 100, 1.0)

    def _samples(self, card: Any, index: int) -> list[Any] | None:
        """What each process used since the last look; None: this card does not tell."""
        nvml = self._nvml
        try:
            return list(nvml.nvmlDeviceGetProcessUtilization(card, self._seen.get(index, 0)))
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS):
                return []  # nobody used it
            if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                return None
            raise

    def close(self) -> None:
        """See Cards."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


class AmdCards:
    """By the files of amdgpu."""

    def __init__(self, drm: Path) -> None:
        self._files = sorted(drm.glob(BUSY))[:MOST_CARDS]

    def others(self, ours: Collection[int], *, is_alone: bool) -> float | None:
        """See Cards."""
        if not is_alone:
            return None
        parts = []
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                parts.append(min(int(file.read_text().strip()), 100) / 100)
        return max(parts, default=None)

    def close(self) -> None:
        """Nothing is held."""
