import msgspec
import pytest
from hypothesis import given

from pairproxy.api.limiting import what_limits
from pairproxy.api.schema import RunProgress, Status
from tests.support.statuses import A, B, engine, node, running, status, statuses, waiting

BOTH = (node(A, "desk", engine(1, 1)), node(B, "box", engine(1, 0)))
RUN = RunProgress("nightly", 5.0, 4, 3, 1, 0, 2, 2, 1.5, 2.0)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (status(node(A, "desk")), "No engine answers, here or on a peer: start one, and it is found."),
        (status(*BOTH[1:]), "Nothing runs or waits here: 1 slot free."),
        (
            status(BOTH[0], msgspec.structs.replace(BOTH[1], withheld="owner"), waiting=(waiting(2),)),
            (
                "The only slot is busy and 1 request waits: the slots are the limit; "
                "more of them, or a node more, would help."
            ),
        ),
        (status(*BOTH), "Nothing runs or waits here: 1 slot free, 1 busy for others."),
        (
            status(BOTH[0], running=(running(1),), waiting=(waiting(2), waiting(3))),
            (
                "The only slot is busy and 2 requests wait: the slots are the limit; "
                "more of them, or a node more, would help."
            ),
        ),
        (
            status(*BOTH, running=(running(1),), waiting=(waiting(2),)),
            "1 request waits although 1 slot of box is free: a place that is busy now ends it sooner.",
        ),
        (
            status(*BOTH, running=(running(1),), waiting=(waiting(2, is_local=True),)),
            "1 request waits for this machine, on which it must stay, while 1 slot of box is free.",
        ),
        (
            status(
                node(A, "desk", engine(1, 1, models=("big",))), BOTH[1],
                running=(running(1),), waiting=(waiting(2, "big"),),
            ),
            "1 request waits for big, which is on desk only, while 1 slot of box is free: pull it there too.",
        ),
        (
            status(BOTH[0], running=(running(1),)),
            "The only slot is busy and nothing waits: all that came is being worked on.",
        ),
        (
            status(*BOTH, running=(running(1),)),
            "Nothing waits and 1 of 2 slots has nothing to do: more requests at once would use them.",
        ),
        (
            status(*BOTH, running=(running(1),), current_run=RUN),
            "The last request of the run, on desk, sets its end; 1 of 2 slots has nothing to do.",
        ),
        (
            status(*BOTH, running=(running(1),), current_run=msgspec.structs.replace(RUN, is_loop=True)),
            "Nothing waits and 1 of 2 slots has nothing to do: more requests at once would use them.",
        ),
        (
            status(*BOTH[1:], current_run=msgspec.structs.replace(RUN, running=0, is_loop=True)),
            "Nothing of the run is asked now: its client or its tools are at work; 1 slot free.",
        ),
    ],
)  # fmt: skip
def test_it_says_what_holds_requests_up(found: Status, sentence: str) -> None:
    """The slots, a model that only one node has, a rule, the last request, or too little work."""
    assert what_limits(found) == sentence


def test_a_node_that_is_down_offers_nothing() -> None:
    """Nor does an engine that does not answer."""
    down = status(
        node(A, "desk", msgspec.structs.replace(engine(4), is_up=False)),
        node(B, "box", engine(4), is_up=False),
    )
    assert what_limits(down).startswith("No engine answers")


@given(statuses())
def test_it_is_one_sentence_whatever_there_is(found: Status) -> None:
    """Also of what no daemon would tell."""
    said = what_limits(found)
    assert said.endswith(".")
