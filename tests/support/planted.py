"""Faults that can be planted on a running set-up (tests.support.doctored), and what doctor calls them."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Planted

import msgspec
import pytest

from pairproxy.api.diagnosis import Diagnosis
from pairproxy.api.schema import EngineStatus, NodeStatus
from pairproxy.takeover import record
from tests.support.command import here
from tests.support.daemons import until
from tests.support.doctored import SetUp

SETTLED_S = 10.0
Plant = Callable[[SetUp], Planted[Diagnosis]]

# What is planted -> (what doctor must call it, how it is planted); docs/doctor.md has the same table.
RUNNING: dict[str, tuple[str, Plant]] = {}  # while both daemons run, and taken away again


def planted(table: dict[str, tuple[str, Plant]], what: str, finding: str) -> Callable[..., Plant]:
    """Put a fault into a table."""

    def keep(plant: Callable[[SetUp], Iterator[Diagnosis]]) -> Plant:
        made = contextlib.contextmanager(plant)
        table[what] = (finding, made)
        return made

    return keep


# --- while it runs ----------------------------------------------------------------------------------------


@planted(RUNNING, "the private key is readable by others", "files-open")
def _key_is_open(rig: SetUp) -> Iterator[Diagnosis]:
    key = rig.home / "key.pem"
    key.chmod(0o644)
    yield rig.examined()
    key.chmod(0o600)


@planted(RUNNING, "a mistyped key in config.toml", "settings-wrong")
def _settings_are_wrong(rig: SetUp) -> Iterator[Diagnosis]:
    file = rig.home / "config.toml"
    before = file.read_text()
    file.write_text(before + "\n[routing]\npolcy = 'fastest-finish'\n")
    yield rig.examined()
    file.write_text(before)


@planted(RUNNING, "OLLAMA_HOST leads to the engine itself", "clients-bypass")
def _variable_leads_past(rig: SetUp) -> Iterator[Diagnosis]:
    yield rig.examined(OLLAMA_HOST=f"127.0.0.1:{rig.engines['A'].port}")


@planted(RUNNING, "a shell file sets OPENAI_BASE_URL to the engine itself", "clients-bypass")
def _shell_file_leads_past(rig: SetUp) -> Iterator[Diagnosis]:
    file = rig.person / ".bashrc"
    file.write_text(f"export OPENAI_BASE_URL=http://localhost:{rig.engines['A'].port}/v1\n")
    yield rig.examined()
    file.unlink()


@planted(RUNNING, "HTTP_PROXY without NO_PROXY for localhost", "clients-proxied")
def _proxy_catches_localhost(rig: SetUp) -> Iterator[Diagnosis]:
    yield rig.examined(HTTP_PROXY="http://user:word@proxy.example:3128")


@planted(RUNNING, "aiohttp's compiled parser is switched off", "parser-slow")
def _parser_is_slow(rig: SetUp) -> Iterator[Diagnosis]:
    yield rig.examined(is_apart=True, AIOHTTP_NO_EXTENSIONS="1")


@planted(RUNNING, "the daemon may open few files", "descriptors-few")
def _descriptors_are_few(rig: SetUp) -> Iterator[Diagnosis]:
    resource = pytest.importorskip("resource", reason="no limits of this kind here")
    if not hasattr(resource, "prlimit"):
        pytest.skip("this system does not change the limits of another process")
    before = resource.prlimit(rig.a.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(rig.a.pid, resource.RLIMIT_NOFILE, (512, before[1]))
    yield rig.examined()
    resource.prlimit(rig.a.pid, resource.RLIMIT_NOFILE, before)


@planted(RUNNING, "a disk that is nearly full", "disk-full")
def _disk_is_full(rig: SetUp) -> Iterator[Diagnosis]:
    cache = rig.directory / "small"
    cache.mkdir(exist_ok=True)
    mount = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=8m none "$0" && exec "$@"', str(cache)]
    if not shutil.which("unshare") or subprocess.run([*mount, "true"], capture_output=True).returncode:
        pytest.skip("this kernel lets nobody mount a disk of his own (unshare -Urm)")
    command = [sys.executable, "-m", "pairproxy", "doctor", "--json", "--home", str(rig.home)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(rig.person), "PAIRPROXY_CACHE": str(cache)}
    done = subprocess.run([*mount, *command], capture_output=True, text=True, timeout=50, env=environment)
    assert done.returncode == 1, done.stderr
    yield msgspec.json.decode(done.stdout, type=Diagnosis)


@planted(RUNNING, "a takeover that was interrupted", "takeover-half")
def _takeover_is_half_done(rig: SetUp) -> Iterator[Diagnosis]:
    taken = record.Taken("lmstudio", 1234, 12340, "lms", "LM Studio", (), begun=1)
    record.write(rig.home, record.Record((taken,)))
    yield rig.examined()
    record.write(rig.home, record.Record())


@planted(RUNNING, "the engine is down", "engine-silent")
def _engine_is_down(rig: SetUp) -> Iterator[Diagnosis]:
    rig.engines["A"].stop()
    until(lambda: not own_engine(rig).is_up, "the daemon notices")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "an Ollama version with a known hole", "engine-hole")
def _engine_has_a_hole(rig: SetUp) -> Iterator[Diagnosis]:
    _engine_again(rig, FAKE_VERSION="0.34.3")
    until(lambda: own_engine(rig).version == "0.34.3", "the daemon hears of it")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "the engine listens on every address", "engine-exposed")
def _engine_is_exposed(rig: SetUp) -> Iterator[Diagnosis]:
    rig.engines["A"].stop()
    rig.engines["A"].start("0.0.0.0")
    until(lambda: rig.is_whole(rig.a), "the daemon has it again")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "the engine computes four at once and has one slot", "slots-differ")
def _engine_has_other_slots(rig: SetUp) -> Iterator[Diagnosis]:
    _engine_again(rig, OLLAMA_NUM_PARALLEL="4")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "the same, seen by --measure", "slots-differ")
def _engine_is_measured(rig: SetUp) -> Iterator[Diagnosis]:
    _engine_again(rig, OLLAMA_NUM_PARALLEL="3")
    found = rig.examined("--measure")
    assert "was seen to compute at least 3" in found.findings[0].means
    assert [(one.slots, one.asked, one.at_once) for one in found.measured] == [(1, 3, 3)]
    yield found
    _engine_again(rig)
    assert rig.examined("--measure").findings == ()


@planted(RUNNING, "a model with other content than on the peer", "models-differ")
def _model_differs(rig: SetUp) -> Iterator[Diagnosis]:
    _engine_again(rig, False, FAKE_CONTENT="another")
    until(lambda: any(node.models_differ for node in rig.a.status().nodes), "the daemon hears of it")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "a smaller context window than on the peer", "windows-differ")
def _window_differs(rig: SetUp) -> Iterator[Diagnosis]:
    _engine_again(rig, False, FAKE_CONTEXT="4096")
    until(lambda: own_engine(rig).replicas[0].context_tokens == 4096, "the daemon hears of it")
    yield rig.examined()
    _engine_again(rig)


@planted(RUNNING, "the peer is not let use this machine by its own owner", "peer-one-way")
def _peer_does_not_listen(rig: SetUp) -> Iterator[Diagnosis]:
    until(lambda: rig.a.status().uptime_s >= SETTLED_S, "the daemon has been there for a while")
    _rights(rig, "--i-may-not-use")
    until(lambda: not peer_of(rig).hears_us, "the peer listens no more")
    yield rig.examined()
    _rights(rig, "--i-may-use")
    until(lambda: rig.is_whole(rig.a), "it listens again")


@planted(RUNNING, "a damaged file of a peer", "peers-unreadable")
def _peer_file_is_damaged(rig: SetUp) -> Iterator[Diagnosis]:
    (file,) = (rig.home / "peers").glob("*.json")
    before = file.read_bytes()
    file.write_bytes(before[: len(before) // 2])
    yield rig.examined()
    file.write_bytes(before)


# --- what they have in common -------------------------------------------------------------------------


def own_engine(rig: SetUp) -> EngineStatus:
    """The engine of A, as A tells."""
    return next(node for node in rig.a.status().nodes if node.is_self).engines[0]


def peer_of(rig: SetUp) -> NodeStatus:
    """B, as A tells."""
    return next(node for node in rig.a.status().nodes if not node.is_self)


def _engine_again(rig: SetUp, until_whole: bool = True, **said: str) -> None:
    """The engine of A started anew, saying this."""
    rig.engines["A"].stop()
    until(lambda: not own_engine(rig).is_up, "the daemon notices that it is gone")
    rig.engines["A"].start(**said)
    if until_whole:
        until(lambda: rig.is_whole(rig.a), "the daemon has it again")


def _rights(rig: SetUp, word: str) -> None:
    done = here("rights", "A", word, "--home", rig.b.home)
    assert done.returncode == 0, done.stderr
