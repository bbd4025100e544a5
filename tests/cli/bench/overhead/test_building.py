import asyncio
import http.client
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.building import CannotBuild, Programs, build
from pairproxy.cli.bench.overhead.cases import CASES, Case
from pairproxy.cli.bench.overhead.processes import free_port

FEW = Case("few", "", 4, is_stream=True)


@pytest.fixture
def upstream(programs: Programs) -> Iterator[int]:
    """The port of an upstream that runs."""
    port = free_port()
    with subprocess.Popen([programs.upstream, str(port)]) as process:
        try:
            while True:
                try:
                    ask(port, "GET", "/health")
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
            yield port
        finally:
            process.kill()


def ask(port: int, method: str, path: str, body: bytes | Iterator[bytes] | None = None) -> tuple[int, bytes]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, body, headers, encode_chunked=not isinstance(body, bytes | None))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


Load = Callable[..., tuple[dict[str, float], str]]


@pytest.fixture
def load(programs: Programs, upstream: int, tmp_path: Path) -> Load:
    """Asks the upstream for a moment, and returns what was heard and told."""

    def run(case: Case, *options: str) -> tuple[dict[str, float], str]:
        body = tmp_path / "body"
        body.write_bytes(case.body("m"))
        command = [str(programs.generator), "-p", str(upstream), "-c", str(case.clients), "-b", str(body)]
        moment = ("-d", "0.2", "-w", "0.1")
        done = subprocess.run([*command, *moment, *options], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    return run


def test_they_are_compiled_once(programs: Programs, tmp_path: Path) -> None:
    """A second time nothing is compiled: the file is the same."""
    first = asyncio.run(build(tmp_path)).upstream.stat().st_mtime_ns
    assert asyncio.run(build(tmp_path)).upstream.stat().st_mtime_ns == first


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence."""
    monkeypatch.setenv("PATH", "")
    assert shutil.which("cc") is None
    with pytest.raises(CannotBuild, match="apt install gcc"):
        asyncio.run(build(tmp_path))


def test_the_upstream_speaks_both_dialects(upstream: int) -> None:
    """Listings and whole replies; a path that it has not is not found."""
    assert json.loads(ask(upstream, "GET", "/v1/models")[1])["data"][0]["id"] == "bench:latest"
    assert json.loads(ask(upstream, "GET", "/api/tags")[1])["models"][0]["name"] == "bench:latest"
    assert json.loads(ask(upstream, "POST", "/api/chat", b"{}")[1])["done"] is True
    assert ask(upstream, "GET", "/nowhere")[0] == 404


def test_streams_are_as_they_were_set(upstream: int) -> None:
    """So many tokens and the end, in the words of either dialect."""
    ask(upstream, "GET", "/set?tokens=3&gap_us=1000")
    events = ask(upstream, "POST", "/v1/chat/completions", b'{"stream": true}')[1].decode()
    assert events.count("TS=") == 3
    assert events.endswith("data: [DONE]\n\n")
    lines = ask(upstream, "POST", "/api/chat", b'{"stream": true}')[1].decode().splitlines()
    assert [json.loads(line)["done"] for line in lines] == [False] * 3 + [True]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_upstream_takes_bodies_of_five_megabytes(upstream: int, is_chunked: bool) -> None:
    """In one piece or in chunks, and looks for the wish to stream at their end."""
    body = b'{"prompt": "' + b"x" * 5_000_000 + b'", "stream": true}'
    ask(upstream, "GET", "/set?tokens=2&gap_us=0")
    pieces = (body[first : first + 60_000] for first in range(0, len(body), 60_000))
    status, answer = ask(upstream, "POST", "/v1/chat/completions", pieces if is_chunked else body)
    assert (status, answer.count(b"TS=")) == (200, 2)


@pytest.mark.parametrize("name", ["json-64", "40kB", "5MB"])
def test_the_generator_counts_whole_replies(load: Load, name: str) -> None:
    """Each with its token, first byte and time under way; none failed."""
    case = next(case for case in CASES if case.name == name)
    heard, told = load(case, "-t", "1")
    assert (heard["errors"], heard["unanswered"], told) == (0, 0, "")
    assert heard["all_requests"] == heard["all_tokens"] > 0
    assert 0 < heard["first_byte_p50_us"] <= heard["first_byte_p99_us"]


def test_streams_that_run_at_the_end_are_read_to_their_end(load: Load, upstream: int) -> None:
    """What a proxy worked for is what is counted."""
    ask(upstream, "GET", "/set?tokens=5&gap_us=100000")
    heard, _ = load(FEW, "-t", "5")
    assert (heard["errors"], heard["all_requests"], heard["all_tokens"]) == (0, FEW.clients, FEW.clients * 5)


def test_a_reply_with_too_few_tokens_is_an_error(load: Load, upstream: int) -> None:
    """It is counted, and told."""
    ask(upstream, "GET", "/set?tokens=5&gap_us=0")
    heard, told = load(FEW, "-t", "6")
    assert heard["errors"] > 0
    assert "too few or too many tokens" in told


def test_clients_that_stop_reading_stay_connected(load: Load, upstream: int) -> None:
    """They hear their first byte and no more."""
    ask(upstream, "GET", "/set?tokens=1000000&gap_us=0")
    heard, _ = load(FEW, "-s", "-t", "1000000")
    assert (heard["errors"], heard["unanswered"], heard["all_requests"]) == (0, 0, 0)


def test_nobody_there_is_told(programs: Programs) -> None:
    """The generator ends with what failed."""
    command = [str(programs.generator), "-p", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (1, "connect: Connection refused\n")
