"""OpenTelemetry spans of requests that ended: one for each, and below it one for each attempt. Needs its SDK.

::

    client's span (traceparent) -> chat llama3 (here) -> attempt 1, attempt 2
                                `> chat llama3 (at the peer) -> attempt 1

Without a traceparent the request's id is the trace's, and the peer that serves it knows that id. Names and
attributes follow OpenTelemetry's conventions for generative AI where it has one. Never a word of a request.
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace import set_span_in_context as below

from pairproxy import __version__
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.models import NodeId, Outcome
from pairproxy.security.identity import short_id

_log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{32}")
_FAILED = frozenset({Outcome.ERROR, Outcome.TRUNCATED, Outcome.REFUSED, Outcome.FAILED})
_COMPLETIONS = ("/completions", "/completion", "/generate", "/infill")


class Spans:
    """Makes the spans of each record, and hands them to ``processor`` as ended ones."""

    def __init__(
        self, processor: SpanProcessor, own: NodeId, now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        """``now`` is the clock of the records, ``wall`` that of the world, both in seconds."""
        self._ids = _Ids()
        about = {
            "service.name": "pairproxy",
            "service.version": __version__,
            "service.instance.id": short_id(own),
        }
        self.provider = TracerProvider(
            resource=Resource.create(about), id_generator=self._ids, shutdown_on_exit=False
        )
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("pairproxy", __version__)
        self._now = now
        self._wall = wall

    def hear(self, record: RequestRecord) -> None:
        """A request ended. One that its client does not want sampled has no span."""
        parent = parent_of(record)
        if parent is not None and not parent.trace_flags.sampled:
            return
        ahead_s = self._wall() - self._now()
        if parent is None and _ID.fullmatch(record.id):
            self._ids.take(record.id)
        span = self._tracer.start_span(
            f"{operation(record)} {record.model}",
            Context() if parent is None else below(NonRecordingSpan(parent), Context()),
            SpanKind.SERVER,
            _attributes(record),
            start_time=_ns(record.arrived_at, ahead_s),
        )
        for attempt in record.attempts:
            self._add(attempt, below(span, Context()), ahead_s)
        if record.outcome in _FAILED:
            span.set_status(Status(StatusCode.ERROR, record.error.partition(":")[0] or None))
        span.end(_ns(record.ended_at, ahead_s))

    def _add(self, attempt: AttemptRecord, context: Context, ahead_s: float) -> None:
        about: dict[str, str | int] = {
            "pairproxy.attempt": attempt.number,
            "pairproxy.node": short_id(attempt.place.node),
            "pairproxy.engine": attempt.place.engine,
            "pairproxy.end": attempt.end,
        }
        span = self._tracer.start_span(
            f"attempt {attempt.number}",
            context,
            SpanKind.CLIENT,
            about,
            start_time=_ns(attempt.dispatched_at, ahead_s),
        )
        if attempt.first_byte_at is not None:
            span.add_event("first byte", timestamp=_ns(attempt.first_byte_at, ahead_s))
        if attempt.end not in (Outcome.DONE, Outcome.CANCELLED):
            span.set_attribute("error.type", attempt.end)
            span.set_status(StatusCode.ERROR)
        span.end(_ns(attempt.ended_at, ahead_s))


class Counted(SpanExporter):
    """Another exporter, of which is counted what went out and what was lost; the log says each change."""

    def __init__(self, inner: SpanExporter, where: str) -> None:
        """``where`` the spans go, for people."""
        self.sent = 0
        self.lost = 0
        self._inner = inner
        self._where = where
        self._is_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them. Never raises."""
        try:
            result = self._inner.export(spans)
        except Exception:  # noqa: BLE001 whatever the library, the network and their versions raise
            result = SpanExportResult.FAILURE
        is_down = result is not SpanExportResult.SUCCESS
        if is_down:
            self.lost += len(spans)
        else:
            self.sent += len(spans)
        if is_down is not self._is_down:
            self._is_down = is_down
            said = "%s takes no traces; they are lost until it does" if is_down else "%s takes traces again"
            _log.warning(said, self._where)
        return result

    def shutdown(self) -> None:
        """Close the other one."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept here."""
        return True


class _Ids(RandomIdGenerator):
    """Random ids; those of the next span may be given."""

    def __init__(self) -> None:
        self._trace: int | None = None
        self._span: int | None = None

    def take(self, request: str) -> None:
        """Let the next root span have the ids that ids_of() says."""
        self._trace, self._span = ids_of(request)

    def generate_trace_id(self) -> int:
        """One that was given, once, or a random one."""
        given, self._trace = self._trace, None
        return given or super().generate_trace_id()

    def generate_span_id(self) -> int:
        """The same for a span."""
        given, self._span = self._span, None
        return given or super().generate_span_id()


def ids_of(request: str) -> tuple[int, int]:
    """The ids of trace and span of a request without a traceparent, known wherever its id is."""
    return int(request, 16), int(request[:16], 16)


def parent_of(record: RequestRecord) -> SpanContext | None:
    """The span below which a request belongs: its client's, or that of the node where it arrived."""
    if record.trace:
        _, trace, span, flags = record.trace.split("-")
        return SpanContext(
            int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
        )
    name = record.id.split("-")[1] if record.origin is not None and record.id.count("-") == 2 else ""
    if not _ID.fullmatch(name):
        return None
    trace_id, span_id = ids_of(name)
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return context if context.is_valid else None


def operation(record: RequestRecord) -> str:
    """What was asked for, in the words of OpenTelemetry's conventions."""
    if "embed" in record.path:
        return "embeddings"
    if record.path.endswith(_COMPLETIONS) and not record.path.endswith("/chat/completions"):
        return "text_completion"
    return "transcription" if "/audio/" in record.path else "chat"


def _attributes(record: RequestRecord) -> dict[str, Any]:
    usage, failed = record.usage, record.outcome in _FAILED
    told = {
        "gen_ai.operation.name": operation(record),
        "gen_ai.request.model": record.model,
        "gen_ai.request.stream": record.is_streaming,
        "gen_ai.request.max_tokens": record.max_output_tokens,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.response.time_to_first_chunk": record.ttft_s,
        "error.type": (record.error.partition(":")[0] or record.outcome.value) if failed else None,
        "pairproxy.request": record.id,
        "pairproxy.outcome": record.outcome.value,
        "pairproxy.queue_s": record.queue_s,
        "pairproxy.attempts": len(record.attempts),
        "pairproxy.origin": None if record.origin is None else short_id(record.origin),
    }
    return {key: value for key, value in told.items() if value is not None}


def _ns(at: float, ahead_s: float) -> int:
    """Nanoseconds of the epoch."""
    return int((at + ahead_s) * 1e9)
