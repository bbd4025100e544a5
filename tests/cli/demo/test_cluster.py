import asyncio
import os
import tempfile
from pathlib import Path

import psutil
import pytest

from pairproxy import loading
from pairproxy.cli.demo.cluster import Cluster, demo_settings, node_environment, node_settings, pair
from pairproxy.core.errors import EngineUnavailable
from pairproxy.core.models import NodeId
from pairproxy.security.identity import load_or_create
from pairproxy.security.trust import TrustStore
from tests.cli.test_status import dead_pid
from tests.support.fake_engine import eventually
from tests.support.running import run_async


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test alone."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.mark.slow
def test_every_node_serves_and_sees_the_others_and_leaves_nothing(temporary: Path) -> None:
    """Inside the block both are connected, on ports of their own; after it no process and no file is left."""

    async def scene() -> list[int]:
        async with Cluster(demo_settings(2, "paced")) as nodes:
            for node in nodes.nodes:
                status = nodes.status(node)
                assert [one.is_up for one in status.nodes] == [True, True]
                assert status.nodes[0].engines[0].port == next(iter(node.file.client_ports.values()))
            assert len(list(temporary.iterdir())) == 1
            return [node.process.pid for node in nodes.nodes]

    pids = run_async(scene(), timeout=40.0)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert list(temporary.iterdir()) == []


def test_a_node_that_cannot_start_speaks_for_itself(temporary: Path) -> None:
    """The demo ends with the node's own sentence, and everything is put away."""
    with pytest.raises(EngineUnavailable, match=r"Did you mean admin\.listen"):
        run_async(_enter(Cluster(dict.fromkeys("AB", "[admin]\nlissten = 1\n"))), timeout=40.0)
    assert list(temporary.iterdir()) == []


async def _enter(nodes: Cluster) -> None:
    async with nodes:
        pass


def test_cancelling_the_start_leaves_nothing(temporary: Path) -> None:
    """Whoever stops waiting while the nodes start finds none of them afterwards."""

    async def scene() -> list[int]:
        nodes = Cluster(demo_settings(2, "paced"))
        entering = asyncio.create_task(_enter(nodes))
        await eventually(lambda: len(nodes.nodes) == 2)
        entering.cancel()
        await asyncio.wait([entering])
        assert entering.cancelled()
        return [node.process.pid for node in nodes.nodes]

    assert not any(psutil.pid_exists(pid) for pid in run_async(scene(), timeout=40.0))
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_demo_left_is_removed_and_what_a_living_one_uses_is_not(temporary: Path) -> None:
    """Directories of dead processes go, for there are keys in them; all others stay."""
    dead = temporary / f"pairproxy-demo-{dead_pid()}-x"
    kept = [temporary / name for name in (f"pairproxy-demo-{os.getpid()}-x", "pairproxy-demo-mine", "other")]
    for directory in (dead, *kept):
        (directory / "A").mkdir(parents=True)
        (directory / "A" / "key.pem").write_text("secret")
    run_async(_enter(Cluster(demo_settings(1, "paced"))), timeout=40.0)
    assert sorted(temporary.iterdir()) == sorted(kept)


@pytest.mark.parametrize("engine", ["embedded", "paced"])
def test_the_settings_of_a_node_are_right_and_private(engine: str, tmp_path: Path) -> None:
    """Every port is on loopback and chosen by the system; each paced node is slower than the one before."""
    speeds = []
    for name, text in demo_settings(5, engine).items():
        file = tmp_path / f"{name}.toml"
        file.write_text(text)
        settings = loading.load(file, {})
        (entry,) = settings.engines
        assert (entry.kind, entry.threads, entry.slots) == (engine, 1, 1)
        assert {entry.listen, settings.admin.listen, settings.peers.listen} == {"127.0.0.1:0"}
        assert settings.peers.loopback
        speeds.append(entry.paced.decode)
    assert speeds == sorted(speeds, reverse=True)


def test_a_node_is_what_its_settings_say(tmp_path: Path) -> None:
    """Slots, speeds and policy come out as they went in."""
    file = tmp_path / "config.toml"
    file.write_text(node_settings("paced", 4, {"decode": 30.0, "beta": 0.03}, "least-busy"))
    settings = loading.load(file, {})
    (entry,) = settings.engines
    assert (entry.slots, entry.paced.decode, entry.paced.beta) == (4, 30.0, 0.03)
    assert settings.routing.policy == "least-busy"


def test_homes_are_paired_each_with_all_others(tmp_path: Path) -> None:
    """Both rights, exact certificates, the names of the nodes; nobody trusts itself."""
    homes = {name: tmp_path / name for name in "ABC"}
    pair(homes)
    identities = {name: load_or_create(home) for name, home in homes.items()}
    for name, home in homes.items():
        trust = TrustStore(home, NodeId(identities[name].device_id))
        trust.load()
        assert {record.name: record.certificate for record in trust.peers()} == {
            other: identity.certificate for other, identity in identities.items() if other != name
        }
        assert all(record.may_use_me and record.i_may_use for record in trust.peers())


def test_a_persons_own_settings_are_not_for_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """PAIRPROXY_ variables are kept out, but for the cache that holds the fetched model."""
    monkeypatch.setenv("PAIRPROXY_ROUTING_POLICY", "local-only")
    monkeypatch.setenv("PAIRPROXY_CACHE", "/somewhere")
    own = {key: value for key, value in node_environment().items() if key.startswith("PAIRPROXY_")}
    assert own == {"PAIRPROXY_CACHE": "/somewhere"}
