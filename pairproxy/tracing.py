"""Traces for OpenTelemetry, where a person wants them and its library is there; else none of it is loaded.

What goes out says which model was asked when, and where it ran, never what was said. An address of another
machine counts only where it was written for pairproxy; the variable that all programs share is for this one.
"""

import asyncio
import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pairproxy.clock import wall
from pairproxy.config import check_endpoint, is_loopback
from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.errors import ConfigError
from pairproxy.core.models import NodeId

if TYPE_CHECKING:
    from pairproxy.spans import Counted, Spans

_log = logging.getLogger(__name__)

BASE, EXACT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PATH = "/v1/traces"  # of OTLP over HTTP, below what BASE or the setting says
LIMIT_SPANS = 2048  # that wait to be sent, about 2 MB: a minute of a busy node; more are let go of
BATCH_SPANS = 512  # the SDK's own
EVERY_MS = 5000  # the same
SEND_S = 5.0  # for one batch; an answer takes milliseconds
STOP_S = 2.0  # for what is left when the daemon ends

_MISSING = (
    "OpenTelemetry is not installed. Install pairproxy with its extra: pip install 'pairproxy[tracing]'"
)


class Tracing:
    """Hears each record that ended, if traces are wanted. Sending happens in a thread of the SDK."""

    def __init__(
        self, setting: str, environment: Mapping[str, str], own: NodeId, now: Callable[[], float]
    ) -> None:
        """``setting`` is tracing.endpoint. Raises ConfigError if that asks for what cannot be done."""
        self._spans: Spans | None = None
        self._counted: Counted | None = None
        where = destination(setting, environment)
        if where is None:
            return
        try:
            self._start(where, own, now)
        except ImportError:
            if setting:
                raise ConfigError(
                    f"tracing.endpoint is set, but {_MISSING}, or remove the setting."
                ) from None
            _log.warning("%s is set, but %s.", BASE, _MISSING)

    @property
    def is_on(self) -> bool:
        """Whether spans are made."""
        return self._spans is not None

    def counts(self) -> dict[str, int]:
        """How many spans were sent and lost by now; nothing if none are made."""
        return {} if self._counted is None else {"sent": self._counted.sent, "lost": self._counted.lost}

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        if self._spans is not None:
            self._spans.hear(record)

    async def stop(self) -> None:
        """Send what is left, for STOP_S at most."""
        spans, self._spans = self._spans, None
        if spans is None:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            spans.provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, name="last traces", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await done.wait()

    def _start(self, where: str, own: NodeId, now: Callable[[], float]) -> None:
        """Raises ImportError where the library is missing."""
        exporter = _exporter(where)
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from pairproxy.spans import Counted, Spans

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # Counted says it once
        self._counted = Counted(exporter, _shown(where))
        batches = BatchSpanProcessor(
            self._counted,
            max_queue_size=LIMIT_SPANS,
            schedule_delay_millis=EVERY_MS,
            max_export_batch_size=BATCH_SPANS,
        )
        self._spans = Spans(batches, own, now, wall)
        _log.info("traces of requests (ids, models, nodes, times; no text) go to %s", _shown(where))


def destination(setting: str, environment: Mapping[str, str]) -> str | None:
    """The URL that takes the traces; None: they are not wanted. Raises ConfigError for a faulty setting."""
    if setting:
        check_endpoint(setting, "tracing.endpoint")
        return _below(setting)
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    name = EXACT if environment.get(EXACT) else BASE
    given = environment.get(name, "")
    if not given or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    try:
        check_endpoint(given, name)
    except ConfigError as error:
        _log.warning("%s No traces are sent.", error.sentence)
        return None
    if not is_loopback(urlsplit(given).hostname or ""):
        _log.warning(
            "%s leads to another machine, which is not used unasked: set tracing.endpoint for it.", name
        )
        return None
    return given if name == EXACT else _below(given)


def _below(text: str) -> str:
    """The address for traces below a collector's; an address that has a path already is that of traces."""
    parts = urlsplit(text)
    return text if parts.path.strip("/") else parts._replace(path=PATH).geturl()


def _shown(where: str) -> str:
    """An address without the key that may stand in it."""
    parts = urlsplit(where)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _exporter(where: str) -> Any:
    """What sends spans. To this machine directly, whatever proxy the environment names."""
    module = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    session = importlib.import_module("requests").Session()
    session.trust_env = not is_loopback(urlsplit(where).hostname or "")
    session.max_redirects = 0  # who takes traces was named by a person, not by who answers there
    return module.OTLPSpanExporter(endpoint=where, timeout=SEND_S, session=session)
