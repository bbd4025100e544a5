import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from pairproxy.api.schema import Status
from pairproxy.tui.live import joined
from pairproxy.tui.page import one_page, page
from pairproxy.tui.palette import ASCII, BLOCKS, Palette
from pairproxy.tui.words import named
from tests.support.statuses import A, at_work, engine, largest, node, status, statuses

SIZES = [(80, 24), (200, 60)]


def drawn(found: Status, width: int, height: int, palette: Palette = ASCII, banner: str = "") -> list[str]:
    """The page as text."""
    return [
        line.plain for line in page(found, found.limit, width, height, palette, banner=banner, keys="q quits")
    ]


@settings(max_examples=150, deadline=None)
@given(
    statuses(), st.integers(1, 220), st.integers(1, 70), st.sampled_from((ASCII, BLOCKS)), st.text(max_size=9)
)
def test_no_page_is_larger_than_its_screen(
    found: Status, width: int, height: int, palette: Palette, banner: str
) -> None:
    """Whatever is in it; nothing in it steers the terminal; in ASCII all is ASCII."""
    lines = drawn(found, width, height, palette, "".join(one for one in banner if one.isprintable()))
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    text = "".join(lines[3:] if banner else lines)
    assert text.isprintable()
    assert palette is BLOCKS or banner or text.isascii()


@settings(max_examples=50, deadline=None)
@given(statuses(), st.integers(20, 220))
def test_paper_shows_whatever_there_is(found: Status, width: int) -> None:
    """Every node is on it."""
    lines = [line.plain for line in one_page(found, found.limit, width, ASCII)]
    assert all(line.isprintable() for line in lines)
    text = "\n".join(lines)
    assert all(named(node.name, is_ascii=True) in text for node in found.nodes)


@pytest.mark.parametrize("size", SIZES)
def test_all_of_a_small_cluster_is_on_the_screen(size: tuple[int, int]) -> None:
    """What limits, slots, waves, speedup, each running request, why a node is down, what the cells mean."""
    lines = drawn(at_work(), *size)
    text = "\n".join(lines)
    assert len(lines) == size[1]
    assert lines[1].startswith("4 running, 9 waiting, 5 ended (4 done, 1 failed)  ooooooooo")
    for part in (
        "# # o .",
        "1.43 so far; provable bound 1.85",
        "0.8 of 3 waves",
        "laptop is down: it was stopped",
    ):
        assert part in text
    assert all(f"{number:08x}" in text for number in range(4))
    assert lines[-1].startswith("# writing  = reading  . free  o for others  o waiting")
    assert lines[-1].endswith("q quits")
    assert at_work().limit[:60] in text


@pytest.mark.parametrize("size", SIZES)
def test_what_does_not_fit_is_counted(size: tuple[int, int]) -> None:
    """Engines with their slots, requests that run and that wait; nothing is pushed off the screen."""
    text = "\n".join(drawn(largest(), *size))
    shown = sum(f"gpu-box-{number:02}  ollama" in text for number in range(16))
    assert shown >= 4
    assert re.search(r"and \d+ more\b", text)
    running = int(re.search(r"and (\d+) more", text.partition("running   ")[2]).group(1))  # type: ignore[union-attr]
    assert 400 < running < 512
    assert "2000 requests: 1232 ended" in text
    if size == (80, 24):
        assert re.search(r"and \d+ more: \d+ of \d+ slots in use", text)


def test_on_a_wide_screen_requests_stand_beside_the_nodes() -> None:
    """And the models have room."""
    lines = drawn(at_work(), 200, 60)
    (head,) = [line for line in lines if line.startswith("node  ")]
    assert "running" in head
    assert any(line.startswith("model ") for line in lines)


def test_a_banner_stands_on_top() -> None:
    """Below the name."""
    assert drawn(at_work(), 80, 24, banner="No news")[1].startswith("No news")


def test_without_colour_there_is_no_escape_sequence() -> None:
    """And the same is said."""
    lines = page(at_work(), at_work().limit, 80, 24, BLOCKS)
    for system in (None, "standard"):
        console = Console(width=80, height=24, force_terminal=True, color_system=system)
        with console.capture() as captured:
            console.print(joined(lines))
        assert ("\x1b" in captured.get()) is (system is not None)
        codes = {
            int(code) for found in re.findall(r"\x1b\[([\d;]*)m", captured.get()) for code in found.split(";")
        }
        assert codes <= {0, 1, 2, 7, *range(30, 38)}, "more than the sixteen colours"


def test_on_paper_only_requests_are_left_out() -> None:
    """The first eight that run and wait, and how many more there are; all nodes and models."""
    lines = [line.plain for line in one_page(largest(), largest().limit, 100, ASCII)]
    assert sum(line.startswith("gpu-box-") for line in lines) == 16
    assert sum("loaded" in line for line in lines) == 32
    assert "and 504 more; `pairproxy status --json` has them all" in lines
    assert "and 248 more; `pairproxy status --json` has them all" in lines


def test_on_narrow_paper_a_row_is_a_block() -> None:
    """Nothing of it is cut."""
    long = "hf.co/somebody/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M"
    lines = [line.plain for line in one_page(status(node(A, "desk", engine(models=(long,)))), "", 60, ASCII)]
    assert "node: desk" in lines
    assert f"  model: {long}" in lines
