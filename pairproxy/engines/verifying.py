"""Whether an engine goes on with the beginning of a reply: seen, never believed.

What an engine makes of a last message of the assistant differs by kind, version and chat template: it goes on
with it, takes it for a turn that is over, says it again from its beginning, or refuses it. So each loaded
model is asked for a few tokens, greedily, and then for the same with the first half given. It goes on if what
comes is the second half. Only while ``routing.continuation`` is on: it costs two short replies each.
"""

import asyncio
import json
import logging
from collections.abc import Callable

import msgspec

from pairproxy.core.dialects import routes
from pairproxy.core.dialects.continuing import CHAT, CHAT_COMPLETIONS, Continuable, continuable
from pairproxy.core.dialects.splicing import Splicer
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import BrokenReply, UpstreamError
from pairproxy.core.models import EngineId, ModelName, Replica
from pairproxy.core.replicas import canonical_name
from pairproxy.upstreams import Upstream

_log = logging.getLogger(__name__)

TOKENS = 32  # of the first reply: two dozen words
ALIKE = 8  # characters of the second half that have to come: two tokens, which no chance repeats
REPLY_BYTES = 256 * 1024  # a stream of 32 tokens has 10 kB
TIMEOUT_S = 60.0  # for one reply; a large model on a busy machine writes a token a second
TRIES, RETRY_S = 3, 30.0  # an engine that does not answer is asked again, and then left alone
PROMPTS = (
    "Tell a short story about a river and a mill.",
    "Explain in two sentences why the sky is blue.",
)
"""The second one is for an engine whose reply to the first says the same thing again and again."""


class Verifying:
    """What each engine of this node was seen to go on with, in its present life, of what it lists."""

    def __init__(self, upstream_of: Callable[[EngineId], Upstream]) -> None:
        self._upstream_of = upstream_of
        self._versions: dict[EngineId, str] = {}
        self._judged: dict[EngineId, dict[Replica, bool]] = {}
        self._asking: set[EngineId] = set()

    def continuing(self, report: EngineReport) -> frozenset[ModelName]:
        """The models of an engine that go on; what another version of it did is forgotten."""
        self._see(report)
        judged = self._judged[report.engine]
        own = {one.model for one, _ in report.replicas if judged.get(_plain(one))}
        named = {one.model for one, _ in report.replicas if one.called and canonical_name(one.called) in own}
        return frozenset(own | named)

    def forget(self, engine: EngineId) -> None:
        """An engine no longer answers: what comes back may be another one."""
        self._judged.pop(engine, None)
        self._versions.pop(engine, None)

    def has_to_ask(self, report: EngineReport) -> bool:
        """Whether a loaded model of it was not asked yet, and nobody is asking."""
        self._see(report)
        return report.engine not in self._asking and bool(self._unjudged(report))

    async def ask(self, report: EngineReport) -> None:
        """Ask every loaded model that was not asked yet."""
        self._see(report)
        self._asking.add(report.engine)
        judged = self._judged[report.engine]
        try:
            for replica in self._unjudged(report):
                found = await self._find_out(report, replica)
                judged[_plain(replica)] = found
                word = "can" if found else "can not"
                _log.info("engine %s: replies of %s %s go on here", report.engine, replica.model, word)
        finally:
            self._asking.discard(report.engine)

    async def _find_out(self, report: EngineReport, replica: Replica) -> bool:
        name = _spelled(report, replica.model)
        for number in range(TRIES):
            try:
                return await goes_on(self._upstream_of(report.engine), report.kind, name)
            except (UpstreamError, TimeoutError):
                if number + 1 < TRIES:
                    await asyncio.sleep(RETRY_S)
        return False

    def _see(self, report: EngineReport) -> None:
        if self._versions.get(report.engine) != report.version:
            self.forget(report.engine)
            self._versions[report.engine] = report.version
        judged = self._judged.setdefault(report.engine, {})
        for gone in judged.keys() - {_plain(one) for one, _ in report.replicas}:
            del judged[gone]

    def _unjudged(self, report: EngineReport) -> list[Replica]:
        judged = self._judged.get(report.engine, {})
        return [
            one
            for one, is_loaded in report.replicas
            if is_loaded and one.called is None and _plain(one) not in judged and _writes(one)
        ]


async def goes_on(upstream: Upstream, kind: str, model: str) -> bool:
    """Whether a model goes on with the beginning of a reply, in every way that its engine is asked for chats.

    Raises UpstreamError or TimeoutError where the engine does not answer.
    """
    paths = [path for path in (CHAT_COMPLETIONS, CHAT) if kind in routes.engine_kinds(path)]
    for path in paths:
        found = None
        for prompt in PROMPTS:
            if found is None:
                found = await _goes_on_with(upstream, path, model, prompt)
        if not found:
            return False
    return bool(paths)


async def _goes_on_with(upstream: Upstream, path: str, model: str, prompt: str) -> bool | None:
    """Whether it does on one path; None: its reply says nothing of that."""
    asked = _asked(path, model, prompt)
    whole = await _text(upstream, asked, asked.body)
    cut = whole.rfind(" ", 0, len(whole) // 2 + 1)
    begun, rest = whole[:cut], whole[cut:].lstrip()
    if cut <= 0 or len(rest) < ALIKE or whole.lstrip().startswith(rest[:ALIKE]):
        return None
    more = await _text(upstream, asked, asked.rest(begun, TOKENS // 2))
    return more.lstrip().startswith(rest[:ALIKE])


def _asked(path: str, model: str, prompt: str) -> Continuable:
    greedy = {"temperature": 0, "seed": 1}
    limits = {CHAT: {"options": {"num_predict": TOKENS, **greedy}}}.get(
        path, {"max_tokens": TOKENS, **greedy}
    )
    messages = [{"role": "user", "content": prompt}]
    body = msgspec.json.encode({"model": model, "messages": messages, "stream": True, **limits})
    found = continuable(path, body)
    if found is None:
        raise ValueError("what is asked here is plain text")
    return found


async def _text(upstream: Upstream, asked: Continuable, body: bytes) -> str:
    """The text of a stream; "" where it is refused or has more than text."""
    status, reply = await upstream.fetch(
        "POST",
        asked.path,
        body=body,
        headers=((b"Content-Type", b"application/json"),),
        limit_bytes=REPLY_BYTES,
        timeout_s=TIMEOUT_S,
    )
    if status >= 500:
        raise BrokenReply("The engine did not answer. See what runs there.")
    splicer = Splicer(asked, 0.0)
    splicer.feed(reply if status == 200 else b"", 0.0)
    return splicer.text


def _plain(replica: Replica) -> Replica:
    """A replica by its content: its window may change while it is the same model."""
    return Replica(replica.model, replica.identity)


def _writes(replica: Replica) -> bool:
    return replica.capabilities is None or "completion" in replica.capabilities


def _spelled(report: EngineReport, model: ModelName) -> str:
    """The name of a model as its engine writes it; some know no other spelling."""
    for entry in report.catalogue:
        if entry.model == model and entry.openai is not None:
            try:
                name = json.loads(entry.openai).get("id")
            except (ValueError, AttributeError):
                continue
            if isinstance(name, str):
                return name
    return model
