import logging
import re
from dataclasses import replace

import pytest

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.errors import NodeGone, QueueFull
from pairproxy.core.models import ModelName, NodeId, Outcome, RequestId
from pairproxy.logs import TextFormatter
from pairproxy.request_log import LIMIT_LINES, WINDOW_S, RequestLog
from tests.core.accounting.conversation import A, B, Told, dispatch, refuse, served

NAMES = {A: "anna", B: "ben's machine"}


def lines(caplog: pytest.LogCaptureFixture, *records: RequestRecord, level: int = logging.INFO) -> list[str]:
    """What is logged of these."""
    log = RequestLog(lambda node: NAMES[node])
    with caplog.at_level(level, "pairproxy.request_log"):
        for record in records:
            log.hear(record)
    texts = [TextFormatter().format(record) for record in caplog.records]
    return [text.partition("pairproxy.request_log: ")[2].removeprefix("request ended ") for text in texts]


def test_one_line_says_it_all(caplog: pytest.LogCaptureFixture) -> None:
    """Id, model, node, outcome, seconds and tokens; the same as fields for JSON."""
    record = served("r-1", 1.0, 1.5, 4.25, A, prompt=12, cached=8, tokens=30, run="my job")
    (line,) = lines(caplog, record)
    assert line == (
        "request=r-1 model=m node=anna outcome=done latency_s=3.25 queue_s=0.5 ttft_s=1.0"
        ' prompt_tokens=12 cached_tokens=8 output_tokens=30 run="my job"'
    )
    (kept,) = caplog.records
    assert kept.levelno == logging.INFO
    fields = kept.__dict__["fields"]
    assert (fields["request"], fields["latency_s"], fields["output_tokens"]) == ("r-1", 3.25, 30)


def test_what_is_not_known_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A refused request ran nowhere and has no tokens; the word of the error says why."""
    told = Told()
    told.arrived(0.0, "r", refuse("r", QueueFull("a sentence")))
    assert lines(caplog, told.only) == [
        "request=r model=m outcome=refused latency_s=0.0 queue_s=0.0 error=QueueFull"
    ]


def test_several_attempts_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """How many there were; the node is that of the last one."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(1.0, "r", NodeGone("gone"), dispatch("r", B, number=2))
    told.finished(4.0, "r", number=2)
    (line,) = lines(caplog, told.only)
    assert 'node="ben\'s machine" outcome=done' in line
    assert "attempts=2" in line


def test_a_peers_request_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """By the name of the node that its client asked."""
    (line,) = lines(caplog, served("r", 0.0, 0.0, 1.0, A, origin=B))
    assert line.endswith('origin="ben\'s machine"')


def test_names_cannot_forge_a_field(caplog: pytest.LogCaptureFixture) -> None:
    """What a client or a peer named stands in quotes where it could be read as more than a value."""
    record = replace(served("r", 0.0, 0.0, 1.0, A, run='x" outcome=failed\n2'), model=ModelName("a b=c"))
    (line,) = lines(caplog, record)
    assert 'model="a b=c" node=anna outcome=done' in line
    assert line.endswith(r'run="x\" outcome=failed\n2"')


def test_above_info_nothing_is_made(caplog: pytest.LogCaptureFixture) -> None:
    """At level warning a request costs nothing."""

    def name_of(node: NodeId) -> str:
        raise AssertionError(node)

    log = RequestLog(name_of)
    with caplog.at_level(logging.WARNING, "pairproxy.request_log"):
        log.hear(served("r", 0.0, 0.0, 1.0, A))
    assert caplog.records == []


def test_a_storm_does_not_fill_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond a number of lines in some seconds requests are counted; the log says so."""
    many = [served(f"r{n}", 0.0, 0.0, 100.0, A, outcome=Outcome.ERROR) for n in range(LIMIT_LINES + 50)]
    later = served("later", 0.0, 0.0, 100.0 + WINDOW_S, A)
    again = [replace(later, id=RequestId(f"again{n}")) for n in range(LIMIT_LINES + 19)]
    last = served("last", 0.0, 0.0, 100.0 + 2 * WINDOW_S, A)
    told = lines(caplog, *many, later, *again, last)
    assert len([one for one in told if re.match(r"request=r\d+ ", one)]) == LIMIT_LINES
    assert told[LIMIT_LINES].startswith(f"more than {LIMIT_LINES} requests ended within 10 s")
    assert told[LIMIT_LINES + 1] == "50 more requests ended, too many for a line each"
    assert told[LIMIT_LINES + 2].startswith("request=later ")
    assert told[-3].startswith(f"more than {LIMIT_LINES} requests ended within 10 s")
    assert told[-2] == "20 more requests ended, too many for a line each"
    assert len(told) == 2 * LIMIT_LINES + 5
