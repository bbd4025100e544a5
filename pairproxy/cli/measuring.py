"""What a daemon recorded of requests that a command sent, by its own clock: waiting is no service."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from pairproxy.api.client import get_report
from pairproxy.api.schema import Record
from pairproxy.core.accounting.services import Service
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import EngineId, NodeId, Place

RECORD_S = 5.0  # the daemon closes a record within milliseconds of the last byte
_POLL_S = 0.02


async def recorded(home: Path, run: str, is_all: Callable[[tuple[Record, ...]], bool]) -> tuple[Record, ...]:
    """The records of a run, once ``is_all`` says that none is missing.

    Raises NoDaemon, and PairproxyError if one is missing after RECORD_S.
    """
    try:
        async with asyncio.timeout(RECORD_S):
            while True:
                records = (await asyncio.to_thread(get_report, home, run)).records
                if is_all(records):
                    return records
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise PairproxyError("The daemon has no record of a request that was answered.") from None


def service_of(record: Record) -> Service:
    """When and where a request was served. Raises PairproxyError for one that did not end well."""
    if record.node is None or record.dispatched_s is None or record.outcome != "done":
        raise PairproxyError(f"A request that is measured ended as {record.outcome!r}, not done.")
    return Service(
        place=Place(NodeId(record.node), EngineId(record.engine or "")),
        start_s=record.dispatched_s,
        end_s=record.ended_s,
        output_tokens=record.output_tokens or 0,
        prompt_tokens=record.prompt_tokens or 0,
        is_reply=True,
    )
