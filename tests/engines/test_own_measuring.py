"""Found engines that are measured before they are told of: a llama-server that nobody has used."""

from typing import Any

import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.events import EngineReported, SpeedMeasured
from pairproxy.engines import own as own_module
from tests.engines.test_own import of, reports, watched
from tests.support.engine_scripts import json_bytes
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.running import run_async

SAID = {
    "usage": {"prompt_tokens": 100, "completion_tokens": 24},
    "timings": {"prompt_n": 100, "prompt_ms": 50.0, "predicted_n": 24, "predicted_ms": 240.0},
}
FRESH = [{"id": number, "is_processing": False} for number in range(2)]


def llama_server(slots: Any, *models: str) -> Script:
    """A llama-server with two slots."""
    replies = {
        "/props": {"total_slots": 2, "build_info": "b9000"},
        "/v1/models": {"data": [{"id": model} for model in models]},
        "/slots": slots,
        "/v1/chat/completions": SAID,
        "/v1/completions": SAID,
    }

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(json_bytes(replies[request.path]))

    return script


@pytest.mark.parametrize(
    ("slots", "models", "measured"),
    [
        (FRESH, ["m:1b"], [1, 2]),
        ([{**one, "id_task": -1} for one in FRESH], ["m:1b"], [1, 2]),
        ([FRESH[0], {**FRESH[1], "id_task": 7}], ["m:1b"], []),
        ([FRESH[0], {**FRESH[1], "is_processing": True}], ["m:1b"], []),
        (FRESH, ["m:1b", "n:1b"], []),
        ({"error": {"message": "This server does not support slots endpoint."}}, ["m:1b"], []),
        ([], ["m:1b"], []),
    ],
)
def test_a_llama_server_is_measured_if_nobody_has_used_it(
    slots: Any, models: list[str], measured: list[int]
) -> None:
    """Alone and in company, before it is told of; one that was used keeps its caches and is left in peace."""

    async def scene() -> None:
        async with FakeEngine(llama_server(slots, *models)) as engine:
            engines = of(EngineSettings(kind="llamacpp", url=engine.url, listen=""))
            async with watched(engines) as told:
                await engines.until_told()
                companies = [event.company for event in told if isinstance(event, SpeedMeasured)]
                assert (companies, len(reports(told))) == (measured, 1)
                assert isinstance(told[-1], EngineReported)
            asked = [request.path for request in engine.requests if "completions" in request.path]
            assert len(asked) == sum(measured)

    run_async(scene())


def test_a_llama_server_that_takes_too_long_is_learned_by_its_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start waits no longer than a few seconds for the measurement, and the engine is told of."""
    monkeypatch.setattr(own_module, "FOUND_S", 0.2)
    answered = llama_server(FRESH, "m:1b")

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        if "completions" in request.path:
            await connection.peer_left(600)
        else:
            await answered(request, connection)

    async def scene() -> None:
        async with FakeEngine(script) as engine:
            engines = of(EngineSettings(kind="llamacpp", url=engine.url, listen=""))
            async with watched(engines) as told:
                await eventually(lambda: len(told) > 0)
                assert [type(event) for event in told] == [EngineReported]

    run_async(scene())


def test_a_question_that_fails_after_the_measurement_hides_no_engine() -> None:
    """It is told of as the monitor saw it: the monitor says only what changes, and nothing has."""
    answered = llama_server(FRESH, "m:1b")
    failed: list[str] = []

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        is_measured = any("completions" in one.path for one in engine.requests)
        if is_measured and "completions" not in request.path and not failed:
            failed.append(request.path)
            connection.reset()
        else:
            await answered(request, connection)

    engine = FakeEngine(script)

    async def scene() -> None:
        async with engine:
            engines = of(EngineSettings(kind="llamacpp", url=engine.url, listen=""))
            async with watched(engines) as told:
                await eventually(lambda: bool(failed))
                await eventually(lambda: len(reports(told)) > 0)
                assert [replica.model for replica, _ in reports(told)[0].report.replicas] == ["m:1b"]

    run_async(scene())
