"""How one request was decided, as the JSON of api.schema."""

from collections.abc import Mapping

from pairproxy.api.schema import AttemptStory, Candidate, Explanation
from pairproxy.core import models
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.open_requests import OpenRequest
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.errors import BadRequest, NotRemembered

LAST = "last"
WHERE = "`pairproxy report` lists the requests of the last run by their ids."


def find(ledger: Ledger, wanted: str) -> RequestRecord | OpenRequest:
    """What is known of an id, of the unambiguous beginning of one, or of the request that ended last.

    Raises NotRemembered or BadRequest (several begin so), which say where ids are to be found.
    """
    records = ledger.records
    if wanted == LAST:
        own = [record for record in records if record.origin is None] or [*records]
        if own:
            return own[-1]
        raise NotRemembered("No request has ended since the daemon started. Send one and ask again.")
    known: list[RequestRecord | OpenRequest] = [*records, *ledger.opened()]
    exact = [one for one in known if one.id == wanted]
    begun = exact or [one for one in known if wanted and one.id.startswith(wanted)]
    if len({one.id for one in begun}) > 1:
        raise BadRequest(f"Several requests begin with {wanted!r}. Give more of the id; {WHERE}")
    if begun:
        return begun[-1]
    raise NotRemembered(f"No request by this id is in the daemon's memory or history. {WHERE}")


def explain(found: RequestRecord | OpenRequest, names: Mapping[str, str], at: float) -> Explanation:
    """All that is kept of how a request was decided; ``at`` is now.

    Of one that is open: its outcome, and the end of an attempt, is ``running`` or ``waiting``, and what has
    not ended ends now.
    """
    record = found.so_far(at) if isinstance(found, OpenRequest) else found
    return Explanation(
        request=record.id,
        model=record.model,
        dialect=record.dialect,
        path=record.path,
        outcome=found.state if isinstance(found, OpenRequest) else record.outcome,
        error=record.error,
        age_s=at - record.ended_at,
        run=record.run,
        chain=record.chain,
        origin=record.origin,
        queue_s=record.queue_s,
        ended_s=record.ended_at - record.arrived_at,
        prompt_tokens=record.usage.prompt_tokens,
        cached_tokens=record.usage.cached_tokens,
        output_tokens=record.usage.output_tokens,
        attempts=tuple(_attempt(attempt, record) for attempt in record.attempts),
        names=dict(names),
        is_streaming=record.is_streaming,
        continued=record.continued,
    )


def _attempt(attempt: AttemptRecord, record: RequestRecord) -> AttemptStory:
    decision, priced, arrived_at = attempt.decision, attempt.priced, record.arrived_at
    sent_s = attempt.dispatched_at - arrived_at
    return AttemptStory(
        number=attempt.number,
        node=attempt.place.node,
        engine=attempt.place.engine,
        reason=attempt.reason,
        policy=decision.policy if decision else None,
        end=attempt.end,
        dispatched_s=sent_s,
        first_byte_s=None if attempt.first_byte_at is None else attempt.first_byte_at - arrived_at,
        ended_s=attempt.ended_at - arrived_at,
        predicted_first_byte_s=None if priced is None else sent_s + _first_byte_s(priced, record),
        predicted_end_s=None if priced is None else sent_s + priced.finish_s,
        predicted_cached_tokens=None if priced is None else priced.cached_tokens,
        candidates=tuple(_candidate(one) for one in (decision.candidates if decision else ())),
        delivered_tokens=attempt.delivered_tokens,
    )


def _first_byte_s(priced: models.Candidate, record: RequestRecord) -> float:
    """A reply that comes in one piece comes when it is complete."""
    return priced.finish_s - (priced.decode_s if record.is_streaming else 0.0)


def _candidate(one: models.Candidate) -> Candidate:
    return Candidate(
        node=one.place.node,
        engine=one.place.engine,
        finish_s=one.finish_s,
        wait_s=one.wait_s,
        load_s=one.load_s,
        prefill_s=one.prefill_s,
        decode_s=one.decode_s,
        margin_s=one.margin_s,
        affinity_s=one.affinity_s,
        delay_s=one.delay_s,
        chain_s=one.chain_s,
        cached_tokens=one.cached_tokens,
        in_flight=one.in_flight,
        slots=one.slots,
        alone_s=one.alone_s,
        read_s=one.read_s,
    )
