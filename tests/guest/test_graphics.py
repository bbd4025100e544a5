"""Graphics cards, by a stand-in for NVIDIA's library and by files like amdgpu's."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pairproxy.guest.graphics import AmdCards, Graphics, NvidiaCards, find_cards

ENGINE, GAME, BROWSER = 100, 200, 300


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


@dataclass
class Sample:
    pid: int
    timeStamp: int  # noqa: N815 as NVIDIA calls it
    smUtil: int  # noqa: N815


@dataclass
class Nvml:
    """What is used of pynvml: cards with samples, or an error instead of them."""

    cards: list[list[Sample] | int]
    whole: int = 0
    asked: list[int] = field(default_factory=list)
    is_shut: bool = False
    NVMLError = NvmlError
    NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_FOUND = 0, 3, 6

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetProcessUtilization(self, card: int, since: int) -> list[Sample]:  # noqa: N802
        self.asked.append(since)
        told = self.cards[card]
        if isinstance(told, int):
            raise NvmlError(told)
        return told

    def nvmlDeviceGetUtilizationRates(self, card: int) -> "Nvml":  # noqa: N802
        return self

    @property
    def gpu(self) -> int:
        return self.whole

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_shut = True


def test_the_engines_own_use_does_not_count() -> None:
    """It computes for us; the game beside it does count, by the mean of its samples."""
    nvml = Nvml([[Sample(ENGINE, 1, 90), Sample(GAME, 1, 50), Sample(GAME, 2, 30), Sample(BROWSER, 2, 5)]])
    cards = NvidiaCards(nvml)
    assert cards.others({ENGINE}, is_alone=False) == pytest.approx(0.45)
    assert cards.others({ENGINE, GAME, BROWSER}, is_alone=False) == 0.0
    assert nvml.asked == [0, 2], "only what is new"


def test_the_card_that_others_use_most_is_told() -> None:
    """One of two is enough to be somebody's game."""
    assert NvidiaCards(Nvml([[Sample(GAME, 1, 10)], [Sample(GAME, 1, 70)]])).others((), is_alone=True) == 0.7


@pytest.mark.parametrize("error", [Nvml.NVML_ERROR_NOT_FOUND, Nvml.NVML_SUCCESS])
def test_no_samples_mean_that_nobody_used_it(error: int) -> None:
    """The library says so by an error."""
    assert NvidiaCards(Nvml([error])).others((), is_alone=False) == 0.0


def test_where_processes_are_not_told_the_whole_counts_while_we_are_idle() -> None:
    """While an engine of ours computes nobody can say whose use it is."""
    cards = NvidiaCards(Nvml([Nvml.NVML_ERROR_NOT_SUPPORTED], whole=80))
    assert cards.others((), is_alone=True) == pytest.approx(0.8)
    assert cards.others((), is_alone=False) is None


def test_a_driver_that_fails_makes_it_unknown() -> None:
    """It was updated while we run; nothing is guessed."""
    assert NvidiaCards(Nvml([999])).others((), is_alone=True) is None


def test_amd_tells_of_the_whole_card(tmp_path: Path) -> None:
    """So it says something only while nothing of ours is at work there."""
    for card, text in (("card0", "12\n"), ("card1", "64\n"), ("card2", "")):
        (tmp_path / card / "device").mkdir(parents=True)
        (tmp_path / card / "device" / "gpu_busy_percent").write_text(text)
    cards = AmdCards(tmp_path)
    assert cards.others((), is_alone=True) == pytest.approx(0.64)
    assert cards.others((), is_alone=False) is None


def test_what_is_there_is_found(tmp_path: Path) -> None:
    """Nothing at all, mostly; an AMD card by its file."""
    assert find_cards(tmp_path, lambda: None) == []
    (tmp_path / "card1" / "device").mkdir(parents=True)
    (tmp_path / "card1" / "device" / "gpu_busy_percent").write_text("0")
    nvidia, amd = find_cards(tmp_path, lambda: Nvml([]))
    assert isinstance(nvidia, NvidiaCards)
    assert isinstance(amd, AmdCards)


def test_cards_are_let_go_and_found_again() -> None:
    """A laptop's card sleeps only while nobody has it open."""
    made: list[Nvml] = []

    def find() -> list[NvidiaCards]:
        made.append(Nvml([[Sample(GAME, 1, 40)]]))
        return [NvidiaCards(made[-1])]

    graphics = Graphics(find)
    assert (graphics.is_known, made) == (False, [])
    assert graphics.others((), is_alone=False) == pytest.approx(0.4)
    assert graphics.is_known
    graphics.close()
    assert made[0].is_shut
    assert graphics.others((), is_alone=False) == pytest.approx(0.4)
    assert len(made) == 2


def test_a_machine_without_cards_is_unknown() -> None:
    """And it is said."""
    graphics = Graphics(list)
    assert graphics.others((), is_alone=True) is None
    assert not graphics.is_known
