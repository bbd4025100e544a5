"""Whether an engine goes on with the beginning of a reply is seen by asking it."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import EngineSettings, Limits, PacedSettings
from pairproxy.core.documents import CatalogueEntry, EngineReport
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import EngineId, ModelName, Replica
from pairproxy.engines import verifying as module
from pairproxy.engines.build import build_engine
from pairproxy.engines.verifying import Verifying, goes_on
from pairproxy.upstreams import Upstream
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.running import run_async

STORY = "Once upon a time a river ran beside a mill and nobody knew how old it was"
M = ModelName("m:latest")
ENGINE = EngineId("engine")

Habit = Callable[[str], str]
"""What an engine says after the beginning of a reply that it was given."""


def goes(begun: str) -> str:
    """Go on with it."""
    return STORY[len(begun) :]


def begins_anew(begun: str) -> str:
    """Take it for a turn that is over."""
    return STORY


def answers(begun: str) -> str:
    """Answer to it, as to a remark."""
    return "You are welcome! Is there anything else?" if begun else STORY


def repeats(begun: str) -> str:
    """Say the same thing always, so that nothing can be told from it."""
    return "la la la la la la la la la la la la la la la la"


def engine(habit: Habit, *, thinks: bool = False, refuses: bool = False) -> Script:
    """An engine with Ollama's and OpenAI's chats."""

    async def script(asked: ParsedRequest, connection: EngineConnection) -> None:
        last = asked.json()["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        if begun and refuses:
            await scripts.json_reply({"error": "prefill is not supported"}, 400)(asked, connection)
            return
        words = [word + " " for word in habit(begun).split(" ")]
        key = "thinking" if thinks else "content"
        if asked.path == "/api/chat":
            said: list[Any] = [{"message": {key: word}, "done": False} for word in words]
            await scripts.ollama_chat([*said, {"message": {"content": ""}, "done": True}])(asked, connection)
        else:
            key = "reasoning_content" if thinks else key
            await scripts.openai_chat([{"choices": [{"index": 0, "delta": {key: word}}]} for word in words])(
                asked, connection
            )

    return script


def seen(script: Script, kind: str) -> bool:
    """What goes_on() says of an engine."""

    async def main() -> bool:
        async with FakeEngine(script) as fake:
            upstream = Upstream(fake, limits=Limits())
            try:
                return await goes_on(upstream, kind, M)
            finally:
                await upstream.close()

    return run_async(main())


@pytest.mark.parametrize("kind", ["ollama", "llamacpp", "lmstudio", "openai", "embedded", "paced"])
def test_an_engine_that_says_the_second_half_goes_on(kind: str) -> None:
    """Whatever it is: what counts is what it says."""
    assert seen(engine(goes), kind)


@pytest.mark.parametrize("habit", [begins_anew, answers, repeats])
def test_an_engine_that_says_something_else_does_not(habit: Habit) -> None:
    """One that begins again, answers, or of which nothing can be told."""
    assert not seen(engine(habit), "llamacpp")


def test_an_engine_that_refuses_does_not() -> None:
    """Some templates allow no message of the assistant at the end."""
    assert not seen(engine(goes, refuses=True), "openai")


@pytest.mark.parametrize("kind", ["ollama", "llamacpp"])
def test_a_model_that_thinks_does_not(kind: str) -> None:
    """Its thoughts are no text that it could be given back."""
    assert not seen(engine(goes, thinks=True), kind)


def test_every_way_to_ask_has_to_go_on() -> None:
    """An Ollama that goes on over OpenAI's path but not over its own is asked for no rest."""
    both, asked_paths = (engine(goes), engine(begins_anew)), []

    async def script(asked: ParsedRequest, connection: EngineConnection) -> None:
        asked_paths.append(asked.path)
        await both[asked.path == "/api/chat"](asked, connection)

    assert not seen(script, "ollama")
    assert set(asked_paths) == {"/api/chat", "/v1/chat/completions"}
    assert seen(script, "llamacpp")


def test_the_paced_engine_goes_on() -> None:
    """Both of its faces; so do the demo's nodes."""

    async def main() -> None:
        settings = EngineSettings(kind="paced", listen="", paced=PacedSettings(decode=5000.0))
        paced = build_engine(settings, Path("unused"), lambda done, total: None, logging.getLogger())
        await paced.start()
        upstream = Upstream(paced, limits=Limits())
        try:
            assert await goes_on(upstream, "paced", "paced:1b")
        finally:
            await upstream.close()
            await paced.stop()

    run_async(main())


def report(version: str = "1", *, is_loaded: bool = True, **facts: Any) -> EngineReport:
    """What probing it told."""
    entry = CatalogueEntry(M, openai='{"id":"Org/M"}')
    return EngineReport(
        ENGINE, "llamacpp", version, 1, ((Replica(M, "sha256:1", **facts), is_loaded),), (entry,)
    )


def verified(script: Script, talk: Callable[[Verifying, FakeEngine], Any]) -> None:
    """Have a conversation with Verifying before this engine."""

    async def main() -> None:
        async with FakeEngine(script) as fake:
            upstream = Upstream(fake, limits=Limits())
            try:
                await talk(Verifying(lambda _: upstream), fake)
            finally:
                await upstream.close()

    run_async(main())


def test_a_loaded_model_is_asked_once_in_the_life_of_its_engine() -> None:
    """By the name that its engine knows; again for another version, and after it was gone."""

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        assert verifying.has_to_ask(report())
        await verifying.ask(report())
        assert verifying.continuing(report()) == {M}
        assert {asked.json()["model"] for asked in fake.requests} == {"Org/M"}
        assert not verifying.has_to_ask(report(context_tokens=4096))
        assert verifying.continuing(report("2")) == frozenset()
        assert verifying.has_to_ask(report("2"))
        await verifying.ask(report("2"))
        verifying.forget(ENGINE)
        assert verifying.has_to_ask(report("2"))
        assert verifying.continuing(report("2")) == frozenset()

    verified(engine(goes), talk)


def test_a_model_that_is_listed_no_more_is_forgotten() -> None:
    """What engines listed once is not remembered for ever; what comes back is asked anew."""

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        await verifying.ask(report())
        assert verifying.continuing(replace(report(), replicas=())) == frozenset()
        assert verifying.has_to_ask(report())

    verified(engine(goes), talk)


def test_what_is_not_loaded_or_cannot_write_is_not_asked() -> None:
    """Nobody's model is loaded for it."""

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        assert not verifying.has_to_ask(report(is_loaded=False))
        assert not verifying.has_to_ask(report(capabilities=frozenset({"embedding"})))
        assert verifying.has_to_ask(report(capabilities=frozenset({"completion"})))
        await verifying.ask(report(is_loaded=False))
        assert not fake.requests

    verified(engine(goes), talk)


def test_an_alias_goes_on_where_its_model_does() -> None:
    """It is the same model by another name."""

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        await verifying.ask(report())
        named = (Replica(ModelName("mine:latest"), "sha256:1", called="m"), True)
        both = replace(report(), replicas=(*report().replicas, named))
        assert verifying.continuing(both) == {M, "mine:latest"}

    verified(engine(goes), talk)


def test_an_engine_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 while it starts says nothing of what it can."""
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    busy = [True]

    async def script(asked: ParsedRequest, connection: EngineConnection) -> None:
        one = scripts.json_reply({"error": "loading"}, 503) if busy else engine(goes)
        busy.clear()
        await one(asked, connection)

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        await verifying.ask(report())
        assert verifying.continuing(report()) == {M}

    verified(script, talk)


def test_an_engine_that_never_answers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After TRIES it counts as one that does not go on."""
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        with pytest.raises(UpstreamError):
            await goes_on(Upstream(fake, limits=Limits()), "llamacpp", M)
        fake.requests.clear()
        await verifying.ask(report())
        assert len(fake.requests) == module.TRIES
        assert verifying.continuing(report()) == frozenset()
        assert not verifying.has_to_ask(report())

    verified(scripts.raw(b"", then="reset"), talk)


def test_nothing_is_asked_twice_at_once() -> None:
    """While it is being asked, it need not be asked."""

    async def talk(verifying: Verifying, fake: FakeEngine) -> None:
        asking = asyncio.create_task(verifying.ask(report()))
        await asyncio.sleep(0)
        assert not verifying.has_to_ask(report())
        await asking

    verified(engine(goes), talk)
