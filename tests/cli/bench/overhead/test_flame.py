import re
from collections import Counter
from itertools import pairwise

from pairproxy.cli.bench.overhead.flame import flame_graph, hottest, read_stacks

TEXT = """thread (7): MainThread;run (a.py:1);<lambda> (b.py:2) 3
thread (7): MainThread;run (a.py:1) 1
thread (8): writer;wait (c.py:3) 90
"""
FRAME = re.compile(r'<title>(.*?)</title><rect x="(.*?)" y="(.*?)" width="(.*?)"')


def test_only_the_main_thread_counts() -> None:
    """The others of a daemon wait."""
    stacks = read_stacks(TEXT)
    assert stacks == Counter({("run (a.py:1)", "<lambda> (b.py:2)"): 3, ("run (a.py:1)",): 1})


def test_the_hottest_lines_are_those_in_which_samples_ended() -> None:
    """With their part of all, and no more than are wanted."""
    first, second = hottest(read_stacks(TEXT), 10)
    assert (first.where, first.part) == ("b.py:2 <lambda>", 0.75)
    assert (second.where, second.part) == ("a.py:1 run", 0.25)
    assert len(hottest(read_stacks(TEXT), 1)) == 1
    assert hottest(Counter(), 10) == []


def test_frames_are_as_wide_as_their_part_and_stand_on_their_callers() -> None:
    """Names are escaped."""
    picture = flame_graph(read_stacks(TEXT), "a & b")
    assert ">a &amp; b</text>" in picture
    frames = FRAME.findall(picture)
    assert [frame[0] for frame in frames] == [
        "all: 100.0%",
        "run (a.py:1): 100.0%",
        "&lt;lambda&gt; (b.py:2): 75.0%",
    ]
    assert all(float(above[2]) < float(below[2]) for below, above in pairwise(frames))
    assert abs(float(frames[2][3]) / float(frames[1][3]) - 0.75) < 0.01
