"""How much of the processor others use, with real processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from pairproxy.guest.processor import ENGINES, LEAST_WINDOW_S, Processor, descendants

SPINS = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
NOBODY = 1_000_000_000  # no system gives such a pid
FAMILY = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPINS!r}])"


@contextmanager
def running(program: str) -> Iterator[psutil.Process]:
    """A Python program; it and what it started are ended after the block."""
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    _children[child.pid] = child
    try:
        yield psutil.Process(child.pid)
    finally:
        for one in [*psutil.Process(child.pid).children(recursive=True), child]:
            one.kill()
        child.communicate()


_children: dict[int, "subprocess.Popen[bytes]"] = {}


def _tell(process: psutil.Process) -> None:
    """Let a program go on that waits for a line."""
    stdin = _children[process.pid].stdin
    assert stdin is not None
    stdin.write(b"\n")
    stdin.flush()


def spinning(process: psutil.Process, count: int) -> bool:
    """Whether so many processes of a family have used some of the processor."""
    family = [process, *process.children(recursive=True)]
    return sum(one.cpu_times().user > 0.2 for one in family) >= count


def until(is_so: Callable[[], bool], deadline_s: float = 20.0) -> None:
    """Wait for it."""
    end = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def used_by_others(processor: Processor) -> float:
    """The next part that is known; looks that say nothing are passed over."""
    found: list[float] = []

    def look() -> bool:
        part = processor.others(2.0)
        if part is not None:
            found.append(part)
        return part is not None

    until(look)
    return found[-1]


def test_the_first_look_says_nothing_and_two_at_once_neither() -> None:
    """There is no time between them."""
    processor = Processor()
    assert processor.others(1.0) is None
    assert processor.others(1.0) is None


@pytest.mark.slow
def test_a_busy_stranger_counts_and_a_busy_child_of_ours_does_not() -> None:
    """The same work, once of another, once of a process that the daemon started, grandchildren included."""
    cores = psutil.cpu_count() or 1
    with running(FAMILY) as family:
        until(lambda: spinning(family, 1))
        stranger, ours = Processor(own=NOBODY), Processor(own=family.pid)
        stranger.others(2.0)
        ours.others(2.0)
        time.sleep(LEAST_WINDOW_S * 3)  # the window that is measured
        counted, not_counted = used_by_others(stranger), used_by_others(ours)
    assert counted >= 0.3 / cores
    assert counted - not_counted >= 0.3 / cores, "what our child used is taken off"


@pytest.mark.slow
def test_a_look_after_a_process_of_ours_ended_says_nothing() -> None:
    """What it used is not known; the look after it is good again."""
    with running(FAMILY) as family:
        until(lambda: spinning(family, 1))
        processor = Processor(own=family.pid)
        processor.others(2.0)
        for child in family.children():
            child.kill()
            child.wait()
        time.sleep(LEAST_WINDOW_S)
        assert processor.others(2.0) is None


@pytest.mark.slow
def test_a_new_process_of_ours_is_not_taken_for_the_owner() -> None:
    """It was started since the processes were looked at: that is done anew before others are blamed."""
    starts = (
        f"import subprocess, sys\nsys.stdin.readline()\nsubprocess.run([sys.executable, '-c', {SPINS!r}])"
    )
    with running(starts) as family:
        processor = Processor(own=family.pid)
        used_by_others(processor)
        _tell(family)
        until(lambda: spinning(family, 1))
        (child,) = family.children()
        assert family.pid in processor.ours
        assert child.pid not in processor.ours
        told: list[float | None] = []

        def is_known() -> bool:
            told.append(processor.others(0.01))
            return child.pid in processor.ours

        until(is_known)
        assert set(told) == {None}, "its use before it was known is not told as others'"


@pytest.mark.slow
def test_an_engine_is_known_by_the_port_at_which_it_answers() -> None:
    """Whatever its program is called."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serves = f"import socket\ns = socket.create_server(('127.0.0.1', {port}))\n{SPINS}"
    with running(serves) as engine:
        until(lambda: any(one.laddr.port == port for one in engine.net_connections()))
        processor = Processor(own=NOBODY, ports=lambda: [port])
        processor.others(2.0)
        assert engine.pid in processor.ours


@pytest.mark.parametrize(
    "name",
    ["ollama", "ollama.exe", "ollama app.exe", "Ollama", "llama-server", "LM Studio", "LM Studio Helper",
     "lms", "llmster", "lm-studio", "vllm"],
)  # fmt: skip
def test_engines_are_known_by_name(name: str) -> None:
    """As their programs are called on the three systems."""
    assert ENGINES.match(name)


@pytest.mark.parametrize("name", ["python3", "firefox", "lmsensors", "my-ollama", ""])
def test_others_are_not(name: str) -> None:
    """A program that only has such a word in its name is the owner's."""
    assert not ENGINES.match(name)


def test_a_family_is_all_that_comes_of_its_roots() -> None:
    """Whatever the order, and also where a pid given anew makes a circle."""
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 7: 8, 8: 7}
    assert descendants({2}, parents) == {2, 3, 4}
    assert descendants({2, 6}, parents) == {2, 3, 4, 6}
    assert descendants({9}, parents) == set()
    assert descendants({1}, parents) == {2, 3, 4, 5, 6}
