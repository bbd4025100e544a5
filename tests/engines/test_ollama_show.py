import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.engines import ollama_show
from pairproxy.engines.ollama_show import Content, OllamaShow, Shown, read_shown
from tests.engines.test_found import ANY_JSON
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.running import run_async

A, B = "a" * 64, "b" * 64
SHOWN: dict[str, Any] = {
    "modelfile": f'# a comment\nFROM /models/blobs/sha256-{A}\nTEMPLATE """{{{{ .Prompt }}}}"""\n',
    "template": "{{ .Prompt }}",
    "parameters": 'stop    "<end>"\ntemperature    0.7',
    "system": "Be kind.",
    "details": {"quantization_level": "Q4_K_M"},
    "capabilities": ["completion", "tools"],
}


def test_what_makes_a_model_is_its_facts() -> None:
    """The same parts give the same facts wherever the blob lies and however the parameters are ordered."""
    elsewhere = {
        **SHOWN,
        "modelfile": f"FROM C:\\Users\\me\\blobs\\sha256-{A}\r\n",
        "parameters": 'temperature 0.7\nstop "<end>"\n',
        "capabilities": ["tools", "completion"],
        "modified_at": "yesterday",
    }
    assert read_shown(SHOWN).facts.startswith("show:")
    assert read_shown(elsewhere).facts == read_shown(SHOWN).facts
    assert read_shown(SHOWN).capabilities == frozenset({"completion", "tools"})


@pytest.mark.parametrize(
    "other",
    [
        {"modelfile": f"FROM /models/blobs/sha256-{B}"},
        {"modelfile": f"FROM /m/sha256-{A}\nADAPTER /m/sha256-{B}"},
        {"modelfile": f"FROM /m/sha256-{A}\nFROM /m/sha256-{B}"},
        {"template": "{{ .System }}"},
        {"parameters": "temperature 0.8"},
        {"system": ""},
        {"details": {"quantization_level": "Q8_0"}},
        {"capabilities": ["completion"]},
        {"capabilities": None},
    ],
)
def test_any_other_part_is_another_model(other: dict[str, Any]) -> None:
    """Weights, adapters, template, parameters, system prompt, quantization, capabilities."""
    assert read_shown({**SHOWN, **other}).facts not in ("", read_shown(SHOWN).facts)


@pytest.mark.parametrize(
    "modelfile", ["", None, 7, "FROM llama3", "FROM /m/sha256-short", f"# FROM sha256-{A}"]
)
def test_without_the_hash_of_its_weights_a_model_has_no_facts(modelfile: Any) -> None:
    """Equal words around unknown weights prove nothing; what it can is known all the same."""
    assert read_shown({**SHOWN, "modelfile": modelfile}) == Shown("", frozenset({"completion", "tools"}))


def test_a_model_of_the_vendors_cloud_is_told() -> None:
    """By either of the two keys."""
    assert read_shown({**SHOWN, "remote_host": "https://ollama.com"}).is_remote
    assert read_shown({"remote_model": "gpt-oss:120b"}).is_remote
    assert not read_shown(SHOWN).is_remote


@given(ANY_JSON | st.dictionaries(st.sampled_from(sorted(SHOWN)), ANY_JSON))
def test_any_reply_can_be_read(reply: Any) -> None:
    """Odd replies say little, and raise nothing."""
    shown = read_shown(reply)
    assert shown.capabilities is None or len(shown.capabilities) <= ollama_show.CAPABILITIES_LIMIT


def test_each_content_is_asked_once_and_a_few_at_a_time() -> None:
    """In their order, by the engine's own spelling; what is known is not asked again."""

    async def scene() -> None:
        async with FakeEngine(scripts.routes({"/api/show": scripts.json_reply(SHOWN)})) as engine:
            show = OllamaShow(engine.host, engine.port)
            contents = [Content(f"Model{number}", A) for number in range(6)]
            await show.learn(contents)
            assert [request.json()["model"] for request in engine.requests] == [
                f"Model{number}" for number in range(ollama_show.SHOWS_PER_PROBE)
            ]
            assert show.of(contents[0]) == read_shown(SHOWN)
            assert show.of(contents[5]) == Shown()
            await show.learn(contents)
            await show.learn(contents)
            assert len(engine.requests) == 6
            await show.learn([Content("Model0", B)])
            assert len(engine.requests) == 7

    run_async(scene())


def test_what_cannot_be_shown_is_asked_again_after_a_while() -> None:
    """And does not keep the others from being asked."""

    async def scene() -> None:
        async with FakeEngine(scripts.json_reply({"error": "no"}, 500)) as engine:
            show = OllamaShow(engine.host, engine.port)
            broken = Content("broken", A)
            for _ in range(ollama_show.RETRY_PROBES):
                await show.learn([broken])
            assert len(engine.requests) == 1
            assert show.of(broken) == Shown()
            engine.script = scripts.json_reply(SHOWN)
            await show.learn([broken, Content("other", B)])
            assert len(engine.requests) == 3
            assert show.of(broken) == read_shown(SHOWN)

    run_async(scene())


def test_an_engine_that_hangs_holds_up_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget ends the asking; nothing is known, nothing raised, and the next probe asks again."""
    monkeypatch.setattr(ollama_show, "BUDGET_S", 0.2)

    async def scene() -> None:
        async with FakeEngine(scripts.raw(then="hang")) as engine:
            show = OllamaShow(engine.host, engine.port)
            async with asyncio.timeout(2.0):
                await show.learn([Content("m", A)])
            assert show.of(Content("m", A)) == Shown()
            await engine.connections[0].peer_left()
            engine.script = scripts.json_reply(SHOWN)
            await show.learn([Content("m", A)])
            assert show.of(Content("m", A)).facts

    run_async(scene())


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest content goes first."""
    monkeypatch.setattr(ollama_show, "SHOWN_LIMIT", 2)

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(scripts.json_bytes(SHOWN))

    async def scene() -> None:
        async with FakeEngine(script) as engine:
            show = OllamaShow(engine.host, engine.port)
            contents = [Content(f"m{number}", A) for number in range(3)]
            await show.learn(contents)
            assert [bool(show.of(one).facts) for one in contents] == [False, True, True]

    run_async(scene())
