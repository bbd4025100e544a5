"""A copy from begin to end between two Ollamas in real files; the hostile holders are in test_source.py."""

import json

import pytest

from pairproxy.api.replication import CopyProgress
from pairproxy.replicating.copying import Progress
from pairproxy.replicating.manifest import Manifest
from pairproxy.replicating.ollama import PullLine
from tests.e2e.test_blocking import nothing_blocks
from tests.support.copying import WEIGHTS, Heard, copied, holder
from tests.support.fake_engine import eventually
from tests.support.node import identity
from tests.support.ollama_store import OllamaStore
from tests.support.running import run_async


def is_whole(ben: OllamaStore, model: str = "m:1") -> bool:
    """Whether ben lists the model, and has each of its blobs."""
    return model in ben.names() and all(
        ben.blob(layer["digest"]).stat().st_size == layer["size"]
        for layer in json.loads(ben.manifest(model).read_bytes())["layers"]
    )


def test_a_copy_is_the_same_byte_for_byte(anna: OllamaStore, ben: OllamaStore) -> None:
    """Blobs, manifest and so its digest; no name and no partial file of the way there is left."""
    anna.add("m:1", WEIGHTS, b"template")
    anna.add("secret:1", b"not asked for")

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert (last.state, last.error, last.is_identical, last.was_there) == ("done", "", True, False)
    assert last.done_bytes == last.total_bytes == len(WEIGHTS) + len(b"template{}")
    assert ben.manifest("m:1").read_bytes() == anna.manifest("m:1").read_bytes()
    theirs = {one.name: one.read_bytes() for one in anna.blobs.iterdir() if b"asked" not in one.read_bytes()}
    assert {one.name: one.read_bytes() for one in ben.blobs.iterdir()}.items() >= theirs.items()
    assert (ben.names(), ben.leftovers()) == (["m:1", "own:1"], [])


@pytest.mark.parametrize("name", ["hf.co/User/Repo-GGUF:Q4_K_M", "someone/m:latest", "M:1"])
def test_a_name_keeps_all_of_its_parts(anna: OllamaStore, ben: OllamaStore, name: str) -> None:
    """Also another registry's, and its spelling."""
    anna.add(name, b"weights")

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben, name)

    assert run_async(main()).state == "done"
    assert sorted(ben.names()) == sorted([name, "own:1"])


def test_what_is_there_already_is_not_copied_again(anna: OllamaStore, ben: OllamaStore) -> None:
    """Equal content under the name: done, and Ollama is told nothing."""
    for store in (anna, ben):
        store.add("m:1", WEIGHTS)

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert (last.state, last.was_there, ben.pulls) == ("done", True, [])


def test_another_model_of_that_name_is_never_written_over(anna: OllamaStore, ben: OllamaStore) -> None:
    """The sentence says how to give the name away."""
    anna.add("m:1", WEIGHTS)
    ben.add("M:1", b"other weights")
    before = ben.manifest("M:1").read_bytes()

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert last.state == "failed"
    assert "There is another model called M:1 already" in last.error
    assert (ben.manifest("M:1").read_bytes(), ben.pulls, ben.names()) == (before, [], ["M:1", "own:1"])


@pytest.mark.slow
def test_a_name_that_is_taken_meanwhile_is_not_written_over(anna: OllamaStore, ben: OllamaStore) -> None:
    """Somebody creates a model of this name while the copy comes: it stays, and the copy leaves nothing."""
    anna.add("m:1", WEIGHTS)
    ben.is_slow = True
    taken: list[str] = []

    def take(line: CopyProgress) -> None:
        if line.state == "copying" and not taken:
            taken.append(ben.add("m:1", b"made meanwhile"))

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben, heard=Heard(on_line=take), limit=2_000_000)

    last = run_async(main())
    assert taken
    assert last.state == "failed"
    assert b"made meanwhile" in [one.read_bytes() for one in ben.blobs.iterdir()]
    assert (sorted(ben.names()), ben.leftovers()) == (["m:1", "own:1"], [])


class Stopped(ConnectionResetError):
    """Who watched the copy left."""


def stop_in_the_middle(line: CopyProgress) -> None:
    """Leave as soon as some bytes are there and some are not."""
    if 0 < line.done_bytes < line.total_bytes:
        raise Stopped


def test_a_copy_that_is_given_up_leaves_no_model_and_goes_on_next_time(
    anna: OllamaStore, ben: OllamaStore
) -> None:
    """Who watches leaves in the middle. The next try asks only for what is missing."""
    anna.add("m:1", WEIGHTS)
    ben.is_slow = True
    first, second = Heard(on_line=stop_in_the_middle), Heard()

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            with pytest.raises(BaseExceptionGroup) as left:
                await copied(upstream, ben, heard=first, limit=2_000_000)
            assert left.group_contains(Stopped)
            await eventually(lambda: ben.leftovers() != [])
            assert ben.names() == ["own:1"]
            ben.is_slow = False
            return await copied(upstream, ben, heard=second)

    assert run_async(main()).state == "done"
    assert is_whole(ben)
    assert ben.leftovers() == []
    assert 0 < first.came_bytes < len(WEIGHTS)
    assert 0 < second.came_bytes < len(WEIGHTS)


@pytest.mark.slow
def test_every_line_tells_all_and_numbers_only_grow(anna: OllamaStore, ben: OllamaStore) -> None:
    """The total from the first line with bytes on; the speed is that of the limit."""
    anna.add("m:1", WEIGHTS)
    heard = Heard()

    async def main() -> None:
        async with holder(anna) as upstream:
            await copied(upstream, ben, heard=heard, limit=1_500_000)

    run_async(main())
    done = [line.done_bytes for line in heard.lines]
    assert done == sorted(done)
    middle = [line for line in heard.lines if line.bytes_per_s]
    assert middle
    assert all(0 < line.bytes_per_s < 4_000_000 for line in middle if line.bytes_per_s)
    assert all(line.left_s is not None and line.total_bytes > len(WEIGHTS) for line in middle)
    assert {(line.peer, line.is_to_here, line.model, line.blobs) for line in middle} == {
        ("anna", True, "m:1", 2)
    }


def test_a_copy_blocks_no_loop(anna: OllamaStore, ben: OllamaStore) -> None:
    """Neither the holder's nor the receiver's: files are read, and disks asked, in threads."""
    anna.add("m:1", WEIGHTS)
    identity("anna"), identity("ben")  # made once a session, by writing files

    async def main() -> CopyProgress:
        with nothing_blocks():
            async with holder(anna) as upstream:
                return await copied(upstream, ben)

    last = run_async(main())
    assert (last.state, last.error) == ("done", "")


def test_progress_believes_no_number_of_ollamas_beyond_the_manifest() -> None:
    """A line for a blob that the model has not, or with more bytes than it has, changes nothing or is cut."""
    progress = Progress(manifest=Manifest(b"", {"sha256:a": 10, "sha256:b": 20}, None, is_tensors=False))
    for line in (
        PullLine("pulling a", "sha256:a", 10, 99),
        PullLine("pulling x", "sha256:x", 10, 10),
        PullLine("pulling b", "sha256:b", 20, -5),
    ):
        progress.heard(line)
    assert (progress.done_bytes, progress.state) == (10, "copying")
    progress.heard(PullLine("pulling model", "sha256:model", 30, 25))
    assert progress.done_bytes == 25
    progress.heard(PullLine("verifying sha256 digest"))
    assert progress.state == "verifying"
