"""Other routers, with the settings that suit each best: no logs, no metrics, no retries, one process."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pairproxy.cli.bench.overhead.processes import PROXY_CORE, free_port, started, until_answers
from pairproxy.cli.bench.overhead.targets import (
    MODEL,
    OPENAI_PATH,
    READY_BODY,
    Place,
    Running,
    Start,
    Target,
    Written,
    installed,
)

LITELLM = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or it asks the internet
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # a port of loopback, for a minute
}


def _rust_router(package: str, *first: str) -> Start:
    @asynccontextmanager
    async def start(place: Place) -> AsyncIterator[Running]:
        programs = await installed(package, place)
        written = Written(
            lambda place, port, file: [
                str(programs / package), *first, "--host", "127.0.0.1", "--port", str(port),
                "--worker-urls", place.upstream, "--policy", "round_robin", "--log-level", "error",
                "--prometheus-port", str(free_port()), "--disable-retries",
            ]
        )  # fmt: skip
        async with written.start(place) as running:
            yield running

    return start


def _litellm_settings(place: Place, _: int) -> str:
    """JSON, which is YAML too."""
    engine = {"model": f"openai/{MODEL}", "api_base": f"{place.upstream}/v1", "api_key": "none"}
    return json.dumps(
        {
            "model_list": [{"model_name": MODEL, "litellm_params": engine}],
            "litellm_settings": {"telemetry": False, "set_verbose": False, "num_retries": 0},
            "general_settings": {"disable_spend_logs": True},
        }
    )


@asynccontextmanager
async def _litellm(place: Place) -> AsyncIterator[Running]:
    programs = await installed("litellm", place)
    written = Written(
        lambda place, port, file: [
            str(programs / "litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(port),
            "--num_workers", "1", "--telemetry", "False",
        ],
        _litellm_settings,
        {**LITELLM, "PATH": f"{programs}:{os.environ.get('PATH', '')}"},
    )  # fmt: skip
    async with written.start(place) as running:
        yield running


@asynccontextmanager
async def _herd(place: Place) -> AsyncIterator[Running]:
    """Router and node agent are two programs; only the router is on a request's way and is measured."""
    programs = await installed("ollama-herd", place)
    port, surroundings = free_port(), {**os.environ, "HOME": str(place.directory)}
    router = [str(programs / "herd"), "--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR"]
    agent = [str(programs / "herd-node"), "--ollama-host", place.upstream]
    agent += ["--router-url", f"http://127.0.0.1:{port}", "--log-level", "ERROR"]
    async with (
        started(PROXY_CORE, router, place.directory / "log", surroundings) as child,
        started(PROXY_CORE, agent, place.directory / "agent.log", surroundings),
    ):
        await until_answers(child, port, OPENAI_PATH, READY_BODY)
        yield Running(port, child)


SGLANG = Target(
    "sglang-router", "round robin",
    _rust_router("sglang-router", "launch"),
    is_router=True,
)  # fmt: skip
VLLM = Target("vllm-router", "round robin", _rust_router("vllm-router"), is_router=True)
LITELLM_PROXY = Target("litellm", "production mode, one worker", _litellm, is_router=True)
HERD = Target("ollama-herd", "router and one node", _herd, is_router=True)
ROUTERS = (SGLANG, VLLM, LITELLM_PROXY, HERD)
