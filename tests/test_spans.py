import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.errors import NodeGone, QueueFull
from pairproxy.core.models import Outcome, RequestId
from pairproxy.spans import Counted, Spans, operation
from tests.core.accounting.conversation import A, B, Told, asked, dispatch, refuse, served
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
NAME = RequestId("0123456789abcdef" * 2)
NOW, WALL = 1000.0, 1_800_000_000.0


def spans_of(*records: RequestRecord) -> list[ReadableSpan]:
    """The spans that are made of these, the request's before its attempts'."""
    kept = InMemorySpanExporter()
    spans = Spans(SimpleSpanProcessor(kept), A, lambda: NOW, lambda: WALL)
    for record in records:
        spans.hear(record)
    return sorted(
        kept.get_finished_spans(), key=lambda one: (one.start_time or 0, one.kind is not SpanKind.SERVER)
    )


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """(trace, span, parent) in hexadecimal."""
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent


def at(seconds: float) -> int:
    """What a time of a record is in nanoseconds of the epoch."""
    return int((WALL - NOW + seconds) * 1e9)


def test_a_request_and_its_attempts() -> None:
    """One span below its client's, one below that for each attempt, at the times of the world."""
    told = Told()
    told.arrived(990.0, asked("r", trace=TRACEPARENT), dispatch("r", A))
    told.failed(991.0, "r", NodeGone("gone"), dispatch("r", B, number=2))
    told.answered(992.5, "r", number=2)
    told.finished(995.0, "r", number=2)
    whole, first, second = spans_of(told.only)
    trace, root, parent = ids(whole)
    assert (trace, parent) == (TRACE, PARENT)
    assert [ids(one)[0::2] for one in (first, second)] == [(TRACE, root)] * 2
    assert (whole.name, first.name, second.name) == ("chat m", "attempt 1", "attempt 2")
    assert (whole.kind, first.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert (whole.start_time, whole.end_time) == (at(990.0), at(995.0))
    assert (second.start_time, second.end_time) == (at(991.0), at(995.0))
    assert [(event.name, event.timestamp) for event in second.events] == [("first byte", at(992.5))]
    assert first.status.status_code is StatusCode.ERROR
    assert (first.attributes or {})["error.type"] == "NodeGone"
    assert whole.status.status_code is StatusCode.UNSET
    assert whole.resource.attributes["service.name"] == "pairproxy"


def test_each_span_has_an_id_of_its_own() -> None:
    """The request's is given by its name where no client named a trace; those of its attempts are not."""
    whole, attempt = spans_of(served(NAME, 990.0, 991.0, 995.0, B))
    trace, root, _ = ids(whole)
    assert (trace, root) == (NAME, NAME[:16])
    assert ids(attempt)[0::2] == (trace, root)
    assert ids(attempt)[1] != root


def test_attributes_are_those_of_the_conventions() -> None:
    """Operation, model, tokens and the time to the first byte by OpenTelemetry's names; ours by our own."""
    whole, attempt = spans_of(served(NAME, 990.0, 991.0, 995.0, B, prompt=12, cached=8, tokens=30))
    assert dict(whole.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.response.time_to_first_chunk": 1.5,
        "pairproxy.request": NAME,
        "pairproxy.outcome": "done",
        "pairproxy.queue_s": 1.0,
        "pairproxy.attempts": 1,
    }
    assert dict(attempt.attributes or {}) == {
        "pairproxy.attempt": 1,
        "pairproxy.node": "b-",
        "pairproxy.engine": "embedded",
        "pairproxy.end": "done",
    }


def test_the_names_of_attributes_are_the_librarys() -> None:
    """Those that begin with gen_ai stand in its own list."""
    names = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for key, value in vars(names).items() if key.startswith("GEN_AI_")}
    record = replace(served(NAME, 0.0, 0.0, 9.0, A, cached=1), max_output_tokens=5)
    used = [key for key in spans_of(record)[0].attributes or {} if key.startswith("gen_ai.")]
    assert len(used) == 8
    assert set(used) <= known


def test_without_a_traceparent_the_request_is_the_trace() -> None:
    """So that its peer's span, which knows the request's id, belongs to the same trace, below it."""
    peers = RequestId(f"{B}-{NAME}-1")
    here, _ = spans_of(served(NAME, 990.0, 990.0, 995.0, B))
    there, _ = spans_of(served(peers, 500.0, 500.0, 505.0, A, origin=B))
    assert ids(here) == (NAME, NAME[:16], None)
    assert ids(there)[0] == NAME
    assert ids(there)[2] == NAME[:16]
    assert (there.attributes or {})["pairproxy.origin"] == "b-"
    other, _ = spans_of(served("no-uuid", 990.0, 990.0, 995.0, B))
    assert other.parent is None


def test_who_is_not_sampled_has_no_span() -> None:
    """The client decides, by the flag in its traceparent."""
    record = replace(served(NAME, 990.0, 990.0, 995.0), trace=f"00-{TRACE}-{PARENT}-00")
    assert spans_of(record) == []


def test_a_request_that_ran_nowhere() -> None:
    """Its span is an error with the word for why."""
    told = Told()
    told.arrived(990.0, "r", refuse("r", QueueFull("a sentence")))
    (span,) = spans_of(told.only)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "QueueFull")
    assert (span.attributes or {})["error.type"] == "QueueFull"
    assert "a sentence" not in span.to_json()


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_client_that_leaves_is_no_error(outcome: Outcome) -> None:
    """Neither is a reply that was whole; all other ends are."""
    whole, attempt = spans_of(served(NAME, 990.0, 990.0, 995.0, outcome=outcome))
    is_error = outcome not in (Outcome.DONE, Outcome.CANCELLED)
    for span in (whole, attempt):
        assert (span.status.status_code is StatusCode.ERROR) == is_error


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/api/chat", "chat"),
        ("/v1/chat/completions", "chat"),
        ("/v1/messages", "chat"),
        ("/api/generate", "text_completion"),
        ("/v1/completions", "text_completion"),
        ("/completion", "text_completion"),
        ("/v1/embeddings", "embeddings"),
        ("/api/embed", "embeddings"),
        ("/v1/audio/transcriptions", "transcription"),
    ],
)
def test_operations(path: str, word: str) -> None:
    """What was asked for is told by its path."""
    assert operation(replace(served("r", 0.0, 0.0, 1.0), path=path)) == word


class Flaky(SpanExporter):
    """Does what it is told to, one after the other."""

    def __init__(self, *answers: Callable[[], SpanExportResult]) -> None:
        self._answers = iter(answers)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return next(self._answers)()


def broken() -> SpanExportResult:
    """An exporter that raises."""
    raise ConnectionError("CANARY")


def test_a_collector_that_is_down_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """All is counted; the log says when it went and when it came back."""
    yes, no = (lambda: SpanExportResult.SUCCESS), (lambda: SpanExportResult.FAILURE)
    counted = Counted(Flaky(yes, broken, no, no, yes, yes), "http://collector")
    spans = spans_of(served(NAME, 990.0, 990.0, 995.0))
    for _ in range(6):
        counted.export(spans)
    assert (counted.sent, counted.lost) == (3 * len(spans), 3 * len(spans))
    assert [record.getMessage() for record in caplog.records] == [
        "http://collector takes no traces; they are lost until it does",
        "http://collector takes traces again",
    ]


def test_a_trace_goes_along_to_a_peer_and_its_engine() -> None:
    """In its checked form; what cannot be read goes to this machine's own engine only."""
    script = scripts.ollama_chat([{"message": {"content": "x"}}, {"done": True}])
    body = json.dumps({"model": "m:1", "messages": []}).encode()

    async def main() -> None:
        async with (
            FakeEngine(script) as his,
            FakeEngine(script) as hers,
            Node(his, name="ben") as ben,
            Node(hers, models=()) as anna,
        ):
            await anna.pair(ben)
            for given in (TRACEPARENT, f"{TRACEPARENT}-x", None):
                fields = () if given is None else (f"Traceparent: {given}",)
                async with await RawClient.open(anna.port) as client:
                    await client.ask(request("POST /api/chat HTTP/1.1", body, *fields))
                async with await RawClient.open(ben.port) as client:
                    await client.ask(request("POST /api/chat HTTP/1.1", body, *fields))
            told = [one.header("traceparent") for one in his.requests]
            sent = TRACEPARENT.encode()
            assert told == [sent, sent, None, sent + b"-x", None, None]
            assert [record.trace for record in anna.records] == [TRACEPARENT, "", ""]
            assert [record.trace for record in ben.records] == [TRACEPARENT] * 2 + [""] * 4

    run_async(main())


@pytest.mark.parametrize("outcome", list(Outcome))
def test_no_word_of_a_request_is_in_a_span(outcome: Outcome) -> None:
    """Whatever a record holds, a span has only numbers, ids and words of ours beside the model's name."""
    record = served(NAME, 990.0, 990.0, 995.0, run="CANARY", client="CANARY", outcome=outcome)
    record = replace(record, chain="CANARY", error="NodeGone: CANARY", path="/v1/CANARY")
    assert not [one for one in spans_of(record) if "CANARY" in one.to_json()]
