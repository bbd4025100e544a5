"""The registry of one copy, asked as Ollama asks it, and as others on this machine would."""

from collections.abc import AsyncGenerator

import aiohttp
import pytest

from pairproxy.core.errors import CopyFailed, PairproxyError
from pairproxy.replicating.manifest import Manifest
from pairproxy.replicating.names import full_name, left_over
from pairproxy.replicating.registry import Registry
from tests.support.running import run_async

DIGEST = "sha256:" + "a" * 64
DATA = bytes(range(200))


async def read(digest: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
    """The blob, in two pieces."""
    middle = (start + stop) // 2
    yield DATA[start:middle]
    yield DATA[middle:stop]


async def broken(digest: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
    """Half of it, and then no more."""
    yield DATA[start : start + 10]
    raise CopyFailed("the holder is gone")


def registry(
    reader: object = read, *, is_tensors: bool = False, heard: list[PairproxyError] | None = None
) -> Registry:
    """One with a model of one blob."""
    manifest = Manifest(b'{"the": "manifest"}', {DIGEST: len(DATA)}, None, is_tensors)
    told = heard if heard is not None else []
    return Registry(manifest, full_name("a/m:1"), reader, told.append)  # type: ignore[arg-type]


def root_of(opened: Registry) -> str:
    """The URL of the repository."""
    host, _, rest = opened.model.partition("/")
    return f"http://{host}/v2/{rest.rpartition(':')[0]}"


def test_it_answers_what_ollama_asks() -> None:
    """The manifest's very bytes, the length, the place, and any range."""

    async def main() -> None:
        async with registry() as opened, aiohttp.ClientSession() as session:
            root = root_of(opened)
            assert left_over(opened.model) is not None
            async with session.get(f"{root}/manifests/1") as reply:
                assert await reply.read() == b'{"the": "manifest"}'
            async with session.head(f"{root}/blobs/{DIGEST}") as reply:
                assert (reply.status, reply.headers["Content-Length"]) == (200, "200")
            async with session.get(f"{root}/blobs/{DIGEST}", allow_redirects=False) as reply:
                assert (reply.status, await reply.read()) == (200, b"")
                assert reply.headers["Location"] == f"{reply.url.path}"
            for asked, first, last in (
                ("0-199", 0, 199),
                ("5-9", 5, 9),
                ("190-", 190, 199),
                ("190-999", 190, 199),
            ):
                async with session.get(
                    f"{root}/blobs/{DIGEST}", headers={"Range": f"bytes={asked}"}
                ) as reply:
                    assert (reply.status, await reply.read()) == (206, DATA[first : last + 1])
                    assert reply.headers["Content-Range"] == f"bytes {first}-{last}/200"

    run_async(main())


def test_a_model_of_tensors_is_sent_on_to_another_name_of_this_machine() -> None:
    """Where x/transfer reads a 200 to its end before it asks again; there the whole blob comes at once."""

    async def main() -> None:
        async with registry(is_tensors=True) as opened, aiohttp.ClientSession() as session:
            async with session.get(f"{root_of(opened)}/blobs/{DIGEST}", allow_redirects=False) as reply:
                assert (reply.status, await reply.read()) == (307, b"")
                there = reply.headers["Location"]
            assert there.startswith("http://localhost:")
            direct = {"Host": there.split("/")[2]}
            async with session.get(there.replace("localhost", "127.0.0.1"), headers=direct) as reply:
                assert (reply.status, await reply.read()) == (200, DATA)

    run_async(main())


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/", "GET"),
        ("/v2/", "GET"),
        ("/v2/a/m/manifests/1", "GET"),
        ("/v2/pairproxy-copy-{}/m/manifests/1".format("0" * 32), "GET"),
        ("{root}/manifests/2", "GET"),
        ("{root}/manifests/1/..", "GET"),
        ("{root}/blobs/sha256:" + "b" * 64, "GET"),
        ("{root}/blobs/", "GET"),
        ("{root}/blobs/" + DIGEST, "PUT"),
        ("{root}/manifests/1", "DELETE"),
        ("{root}/blobs/uploads/", "POST"),
    ],
)
def test_who_was_not_told_the_name_gets_nothing(path: str, method: str) -> None:
    """Other users of this machine can reach its loopback ports as well; and nothing can be changed."""

    async def main() -> None:
        async with registry() as opened, aiohttp.ClientSession() as session:
            root = root_of(opened)
            base = root[: root.index("/v2/")]
            url = path.replace("{root}", root) if "{root}" in path else base + path
            async with session.request(method, url, allow_redirects=False) as reply:
                assert reply.status == 404

    run_async(main())


@pytest.mark.parametrize("asked", ["bytes=200-", "bytes=a-b", "bytes=-5", "bytes=0-1,3-4", "lines=0-1"])
def test_a_range_that_is_none_is_refused(asked: str) -> None:
    """416; Ollama asks for none of these."""

    async def main() -> None:
        async with registry() as opened, aiohttp.ClientSession() as session:
            url = f"{root_of(opened)}/blobs/{DIGEST}"
            async with session.get(url, headers={"Range": asked}) as reply:
                assert reply.status == 416

    run_async(main())


def test_a_blob_that_stops_coming_looks_broken_and_is_told() -> None:
    """Never whole: the connection ends before the length that was said."""
    heard: list[PairproxyError] = []

    async def main() -> None:
        async with registry(broken, heard=heard) as opened, aiohttp.ClientSession() as session:
            url = f"{root_of(opened)}/blobs/{DIGEST}"
            with pytest.raises(aiohttp.ClientError):
                async with session.get(url, headers={"Range": "bytes=0-199"}) as reply:
                    await reply.read()

    run_async(main())
    assert [error.sentence for error in heard] == ["the holder is gone"]


def test_it_is_gone_when_the_copy_is_over() -> None:
    """And each copy has a name of its own."""

    async def main() -> None:
        async with registry() as opened, registry() as other, aiohttp.ClientSession() as session:
            assert opened.model != other.model
            url = f"{root_of(opened)}/manifests/1"
            async with session.get(url) as reply:
                assert reply.status == 200
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)

    run_async(main())
