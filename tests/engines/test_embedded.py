import asyncio
import json
import logging
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import EngineUnavailable, Unreachable, UpstreamError
from pairproxy.engines import embedded
from pairproxy.engines.embedded import EmbeddedEngine
from tests.support.embedded import LOG, embedded_engine, model_cache
from tests.support.running import run_async

HELLO = {"model": "smollm2:135m", "messages": [{"role": "user", "content": "Say hello."}]}
BRIEFLY = {"max_tokens": 2, "options": {"num_predict": 2}}
LONG_PROMPT = (
    "The committee met again and wrote down what it had decided. " * 250
)  # about 3000 tokens: 20 s to read


async def post(engine: EmbeddedEngine, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """One request without the proxy, straight at the engine."""
    host, port = engine.address(path)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{host}:{port}{path}", json=body) as reply,
    ):
        return reply.status, await reply.read()


def llama_of(engine: EmbeddedEngine) -> psutil.Process:
    """The child process behind ``engine``."""
    port = engine.address("/v1/models")[1]
    for child in psutil.Process().children():
        if any(conn.laddr.port == port for conn in child.net_connections("tcp")):
            return child
    raise AssertionError("the engine has no child process")


async def report_once_it_answers(engine: EmbeddedEngine) -> EngineReport:
    """Probe until it works again; fail after a minute."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await engine.probe()
            except UpstreamError:
                await asyncio.sleep(0.05)


def test_it_answers_openai_and_ollama_clients_alike() -> None:
    """One engine chats and embeds on /v1, chats on /api, and says the same about itself on both."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache, slots=2, context_tokens=1024) as engine:
            status, body = await post(engine, "/v1/chat/completions", {**HELLO, "max_tokens": 4})
            assert status == 200
            assert json.loads(body)["choices"][0]["message"]["content"].strip()
            status, body = await post(engine, "/v1/embeddings", {"model": "smollm2:135m", "input": "hello"})
            assert (status, len(json.loads(body)["data"][0]["embedding"])) == (200, 576)
            status, body = await post(
                engine, "/api/chat", {**HELLO, "stream": False, "options": {"num_predict": 4}}
            )
            assert (status, json.loads(body)["eval_count"]) == (200, 4)
            report = await engine.probe()
            ((replica, is_loaded),) = report.replicas
            assert (report.slots, replica.model, replica.context_tokens, is_loaded) == (
                2,
                "smollm2:135m",
                1024,
                True,
            )
            assert replica.identity.startswith("sha256:b179c952")

    run_async(scene(), timeout=100)


@pytest.mark.slow
def test_each_slot_has_the_whole_window() -> None:
    """With two slots, one request may use all of context_tokens, and not a token more."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache, slots=2, context_tokens=512) as engine:
            body = {"prompt": "a b c d " * 120, "max_tokens": 1}
            assert (await post(engine, "/v1/completions", body))[0] == 200  # 480 tokens
            body = {"prompt": "a b c d " * 130, "max_tokens": 1}
            assert (await post(engine, "/v1/completions", body))[0] == 400  # 520 tokens

    run_async(scene(), timeout=100)


@pytest.mark.slow
def test_a_text_longer_than_a_batch_can_be_embedded() -> None:
    """The small batch, which makes abandoned prompts end soon, does not limit /v1/embeddings."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache, context_tokens=512) as engine:
            status, body = await post(engine, "/v1/embeddings", {"input": "a " * 400})
            assert (status, json.loads(body)["usage"]["prompt_tokens"]) == (200, 401)

    run_async(scene(), timeout=100)


@pytest.mark.parametrize("slots", [3, 65])
def test_any_number_of_slots_starts(slots: int) -> None:
    """Also a number that does not divide the batch, and one that is larger than it."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache, slots=slots, context_tokens=256) as engine:
            assert (await engine.probe()).slots == slots

    run_async(scene(), timeout=100)


def test_an_abandoned_prompt_frees_the_engine_soon() -> None:
    """A client that leaves a 20 s prompt costs the engine about a second, and settled() sees its end."""
    cache = model_cache()

    async def scene() -> float:
        async with embedded_engine(cache) as engine:
            llama = llama_of(engine)
            task = asyncio.create_task(
                post(engine, "/v1/completions", {"prompt": LONG_PROMPT, "max_tokens": 1, "stream": True})
            )
            before = sum(llama.cpu_times()[:2])
            async with asyncio.timeout(60):
                while sum(llama.cpu_times()[:2]) < before + 0.5:  # noqa: ASYNC110 - a process tells nobody
                    await asyncio.sleep(0.02)
            assert not task.done()
            left = sum(llama.cpu_times()[:2])
            task.cancel()
            await engine.settled(0)
            used = sum(llama.cpu_times()[:2])
            await asyncio.sleep(0.5)  # what is to be shown: that it stays quiet
            assert sum(llama.cpu_times()[:2]) < used + 0.1
            return used - left

    assert run_async(scene(), timeout=100) < 5.0  # of the 20 s: one part of it is read to its end


def test_settled_waits_while_it_computes() -> None:
    """settled() does not return while the engine still works on something."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache) as engine:
            llama = llama_of(engine)
            before = sum(llama.cpu_times()[:2])
            task = asyncio.create_task(
                post(engine, "/v1/completions", {"prompt": "Once", "max_tokens": 150, "ignore_eos": True})
            )
            async with asyncio.timeout(60):
                while sum(llama.cpu_times()[:2]) < before + 0.1:  # noqa: ASYNC110 - a process tells nobody
                    await asyncio.sleep(0.02)
            await engine.settled(0)
            used = sum(llama.cpu_times()[:2])
            await task
            assert sum(llama.cpu_times()[:2]) < used + 0.1

    run_async(scene(), timeout=100)


@pytest.mark.slow
def test_settled_beside_others_waits_a_fixed_time() -> None:
    """With others in flight nothing tells, so the measured time is waited, whatever the processor does."""

    async def scene() -> float:
        engine = EmbeddedEngine(EngineSettings(kind="embedded"), model_cache(), lambda *_: None, LOG)
        began = time.monotonic()
        await engine.settled(1)
        return time.monotonic() - began

    assert run_async(scene()) >= embedded.SETTLE_BLIND_S


def test_a_crash_is_told_and_mended(caplog: pytest.LogCaptureFixture) -> None:
    """A killed llama.cpp is reported in the log, started again, and found at its new port by both faces."""
    cache = model_cache()
    caplog.set_level(logging.INFO)

    async def scene() -> None:
        async with embedded_engine(cache, context_tokens=512) as engine:
            first = llama_of(engine)
            first.send_signal(signal.SIGKILL)
            async with asyncio.timeout(60):
                while True:
                    try:
                        engine.address("/v1/models")
                    except Unreachable:
                        break
                    await asyncio.sleep(0.01)
            await report_once_it_answers(engine)
            assert llama_of(engine).pid != first.pid
            for path in ("/v1/chat/completions", "/api/chat"):
                assert (await post(engine, path, {**HELLO, **BRIEFLY}))[0] == 200

    run_async(scene(), timeout=100)
    assert "ended (exit status -9); starting it again in 0.5 s" in caplog.text
    assert "answers again" in caplog.text


def test_ctrl_c_in_the_terminal_is_the_daemons_to_answer() -> None:
    """SIGINT, which a terminal sends to all, leaves llama.cpp running; stop() ends it."""
    cache = model_cache()

    async def scene() -> psutil.Process:
        async with embedded_engine(cache, context_tokens=512) as engine:
            llama = llama_of(engine)
            llama.send_signal(signal.SIGINT)
            assert (await post(engine, "/v1/completions", {"prompt": "a", "max_tokens": 1}))[0] == 200
            await engine.stop()
            await engine.stop()
            return llama

    assert not run_async(scene(), timeout=100).is_running()


def test_no_prompt_is_printed_or_logged(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither llama.cpp nor we write a word of a prompt, or anything at all, to the terminal."""
    cache = model_cache()
    caplog.set_level(logging.DEBUG)

    async def scene() -> None:
        async with embedded_engine(cache, context_tokens=512) as engine:
            for path in ("/v1/chat/completions", "/api/chat"):
                message = {"role": "user", "content": "xylophone"}
                assert (await post(engine, path, {**HELLO, "messages": [message], **BRIEFLY}))[0] == 200

    run_async(scene(), timeout=100)
    assert capfd.readouterr() == ("", "")
    assert "xylophone" not in caplog.text


def test_web_pages_from_elsewhere_may_not_read_replies() -> None:
    """A foreign origin gets no CORS header, a page on this machine does; slots and metrics are shut."""
    cache = model_cache()

    async def scene() -> None:
        async with embedded_engine(cache, context_tokens=512) as engine, aiohttp.ClientSession() as session:
            host, port = engine.address("/v1/models")
            for origin, allowed in (
                ("http://evil.example", None),
                ("http://localhost:3000", "http://localhost:3000"),
            ):
                async with session.get(
                    f"http://{host}:{port}/v1/models", headers={"Origin": origin}
                ) as reply:
                    assert reply.headers.get("Access-Control-Allow-Origin") == allowed
            for path in ("/slots", "/metrics"):
                async with session.get(f"http://{host}:{port}{path}") as reply:
                    assert reply.status == 501

    run_async(scene(), timeout=100)


def test_before_the_start_it_is_unreachable() -> None:
    """An engine that does not run yet has no address, which another node may make good."""

    async def scene() -> None:
        engine = EmbeddedEngine(EngineSettings(kind="embedded"), model_cache(), lambda *_: None, LOG)
        with pytest.raises(Unreachable):
            engine.address("/")
        with pytest.raises(Unreachable):
            await engine.probe()
        await engine.settled(0)
        await engine.stop()

    run_async(scene())


def test_a_start_that_fails_is_one_sentence(tmp_path: Path) -> None:
    """Without a place for the model the start fails with a sentence, and leaves nothing behind."""
    (tmp_path / "file").touch()

    async def scene() -> None:
        engine = EmbeddedEngine(EngineSettings(kind="embedded"), tmp_path / "file", lambda *_: None, LOG)
        with pytest.raises(EngineUnavailable, match="PAIRPROXY_CACHE"):
            await engine.start()
        await engine.stop()

    run_async(scene())
