"""Copies that fail: nothing of them is a model, and the sentence helps. Holders that lie: test_source.py."""

import asyncio
import os

import pytest

from pairproxy.api.replication import CopyProgress
from pairproxy.replicating.copying import Copying, tidy
from pairproxy.replicating.source import Source
from tests.support.copying import WEIGHTS, Heard, copied, holder, no, ollama_of
from tests.support.ollama_store import OllamaStore
from tests.support.running import run_async


def test_wrong_bytes_are_never_installed(anna: OllamaStore, ben: OllamaStore) -> None:
    """Anna's blob has another content than its hash says, of the same size."""
    anna.add("m:1", WEIGHTS)
    blob = max(anna.blobs.iterdir(), key=lambda one: one.stat().st_size)
    blob.write_bytes(bytes(len(WEIGHTS)))

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert last.state == "failed"
    assert "the hash differs" in last.error
    assert (ben.names(), ben.blob(f"sha256:{blob.name[7:]}").exists()) == (["own:1"], False)


def test_a_blob_that_shrank_or_went_ends_the_copy_at_once(anna: OllamaStore, ben: OllamaStore) -> None:
    """Not after the minute that Ollama would go on asking; the sentence names the machine to mend."""
    anna.add("m:1", WEIGHTS)
    blob = max(anna.blobs.iterdir(), key=lambda one: one.stat().st_size)
    os.truncate(blob, 1_000_000)

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main(), timeout=10.0)
    assert last.state == "failed"
    assert last.error.startswith("anna: A file of this model is missing or damaged")
    assert ben.names() == ["own:1"]


def test_a_model_that_does_not_fit_is_not_begun(anna: OllamaStore, ben: OllamaStore) -> None:
    """Three terabytes, of which the holder's file has no block."""
    content = (
        b'{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}'
    )
    path = anna.manifest("m:1")
    path.parent.mkdir(parents=True)
    path.write_bytes(content % (b"a" * 64, 3 * 1024**4))

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            anna_lists = anna.names()
            assert anna_lists == ["m:1"]
            return await copied(upstream, ben)

    last = run_async(main())
    assert last.state == "failed"
    assert "needs 3298.5 GB" in last.error
    assert (ben.pulls, ben.names()) == ([], ["own:1"])


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (
            "write /x/sha256-ab-partial: no space left on device",
            "The disk of Ollama on this machine is full.",
        ),
        ("something \x1b[31mred\x07", "does not take the model: something [31mred"),
        ("dial tcp 127.0.0.1:5: connect: connection refused", "In a container it never can"),
    ],
)
def test_what_ollama_says_is_told_in_words_that_help(
    anna: OllamaStore, ben: OllamaStore, said: str, heard: str
) -> None:
    """Without a control character, and with what to do where it is known."""
    anna.add("m:1", WEIGHTS)
    ben.fails_with = said

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert last.state == "failed"
    assert heard in last.error
    assert ben.names() == ["own:1"]


def test_a_model_that_would_send_prompts_elsewhere_is_not_taken(anna: OllamaStore, ben: OllamaStore) -> None:
    """What the vendor's cloud models are: a file of some bytes that names a host."""
    anna.config = b'{"model_format":"gguf","remote_host":"http://10.6.6.6/","remote_model":"m"}'
    anna.add("m:1", WEIGHTS)

    async def main() -> CopyProgress:
        async with holder(anna) as upstream:
            return await copied(upstream, ben)

    last = run_async(main())
    assert last.state == "failed"
    assert "to which it would send your prompts" in last.error
    assert (ben.pulls, ben.names()) == ([], ["own:1"])


def test_an_ollama_that_stops_in_the_middle_is_said_to_have(anna: OllamaStore, ben: OllamaStore) -> None:
    """Its own partial files stay; nothing is listed when it is there again."""
    anna.add("m:1", WEIGHTS)

    async def main() -> CopyProgress:
        async with holder(anna) as upstream, ollama_of(ben) as (ollama, engine):

            def stop(line: CopyProgress) -> None:
                if line.state == "copying":
                    engine.stop_listening()
                    for connection in engine.connections:
                        connection.reset()

            heard = Heard(on_line=stop)
            await Copying("BEN", ollama, "m:1", Source("anna", upstream, "m:1", no, 2_000_000)).run(heard)
            return heard.last

    last = run_async(main())
    assert last.state == "failed"
    assert "Ollama on this machine answers no more" in last.error
    assert ben.names() == ["own:1"]


def test_what_a_killed_daemon_left_is_taken_away(ben: OllamaStore) -> None:
    """A model under a temporary name whose registry answers no more; one whose registry lives stays."""
    left, lives = f"pairproxy-copy-{'a' * 32}", f"pairproxy-copy-{'b' * 32}"

    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ben.add(f"127.0.0.1:1/{left}/m:1", b"whole")
        ben.add(f"127.0.0.1:{port}/{lives}/m:1", b"comes")
        async with server, ollama_of(ben) as (ollama, _):
            await tidy(ollama)
            assert ben.names() == [f"127.0.0.1:{port}/{lives}/m:1", "own:1"]

    run_async(main())
