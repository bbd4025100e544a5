import asyncio
import json
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.building import Programs
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.routers import ROUTERS, VLLM, _litellm_settings
from pairproxy.cli.bench.overhead.targets import MODEL, Place
from tests.cli.bench.overhead.test_targets import streamed


def test_all_are_asked_for() -> None:
    """Only --routers installs them."""
    assert all(target.is_router for target in ROUTERS)


def test_litellm_knows_the_upstream() -> None:
    """Its settings are YAML that is JSON."""
    settings = json.loads(_litellm_settings(Place(Path(), 8080, Path(), Path()), 0))
    (model,) = settings["model_list"]
    assert (model["model_name"], model["litellm_params"]["api_base"]) == (MODEL, "http://127.0.0.1:8080/v1")


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_a_router_of_pypi_is_installed_and_routes(programs: Programs, tmp_path: Path) -> None:
    """One of the four, for all are installed the same way: a stream arrives whole."""
    assert asyncio.run(streamed(VLLM, programs, tmp_path)).count(b"TS=") == 3
