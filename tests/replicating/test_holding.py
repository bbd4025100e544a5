"""What a paired node may read of the models here, over the real peer port."""

import json

import pytest

from pairproxy.core.models import ModelName, NodeId
from pairproxy.replicating.holding import PART_BYTES
from pairproxy.upstreams import Outgoing, Upstream
from tests.support.copying import holder
from tests.support.node import identity
from tests.support.ollama_store import OllamaStore
from tests.support.running import run_async

pytestmark = pytest.mark.timed

PART = "/pairproxy/models/part"
HEADERS = ((b"Host", b"pairproxy"),)


async def asked(upstream: Upstream, target: str, method: str = "GET") -> tuple[int, str, bytes]:
    """(status, X-Pairproxy-Refused, body)."""
    reply = await upstream.send(Outgoing(method, target, HEADERS))
    refused = next((value for name, value in reply.headers if name == b"X-Pairproxy-Refused"), b"")
    return reply.status, refused.decode(), await reply.read(PART_BYTES)


def blobs_of(store: OllamaStore, name: str) -> list[str]:
    """The digests of a model's blobs, without its config."""
    return [layer["digest"] for layer in json.loads(store.manifest(name).read_bytes())["layers"]]


def test_a_manifest_and_a_part_come_as_they_lie_on_disk(anna: OllamaStore) -> None:
    """By any spelling of the name."""
    anna.add("m:1", b"0123456789")
    (digest,) = blobs_of(anna, "m:1")

    async def main() -> None:
        async with holder(anna) as upstream:
            for name in ("m:1", "M%3A1", "registry.ollama.ai%2Flibrary%2Fm%3A1"):
                status, _, body = await asked(upstream, f"/pairproxy/models/manifest?model={name}")
                assert (status, body) == (200, anna.manifest("m:1").read_bytes())
            status, _, body = await asked(upstream, f"{PART}?model=m:1&digest={digest}&start=2&bytes=5")
            assert (status, body) == (200, b"23456")

    run_async(main())


def test_what_a_peer_may_not_use_does_not_exist_for_it(anna: OllamaStore) -> None:
    """404 as for a model that there is not; a blob of it is no part of one that may be used."""
    anna.add("m:1", b"open")
    anna.add("secret:1", b"closed")
    (secret,) = blobs_of(anna, "secret:1")
    heard: list[NodeId] = []

    def may_use(peer: NodeId, model: ModelName) -> bool:
        heard.append(peer)
        return model.startswith("m:")

    async def main() -> None:
        async with holder(anna, may_use) as upstream:
            answers = [
                await asked(upstream, f"/pairproxy/models/manifest?model={name}")
                for name in ("secret:1", "no:1")
            ]
            assert [answer[:2] for answer in answers] == [(404, "ModelNotFound")] * 2
            assert answers[0][2] == answers[1][2] or b"secret" not in answers[0][2]
            for model in ("secret:1", "m:1"):
                target = f"{PART}?model={model}&digest={secret}&start=0&bytes=1"
                assert (await asked(upstream, target))[0] in (404, 409)

    run_async(main())
    assert set(heard) == {identity("ben").device_id}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?model=m:1",
        f"?model=m:1&digest=sha256:{{d}}&start=0&bytes={PART_BYTES + 1}",
        "?model=m:1&digest=sha256:{d}&start=-1&bytes=1",
        "?model=m:1&digest=sha256:{d}&start=0&bytes=1&start=5",
        "?model=m:1&digest=sha256:{d}&start=0&bytes=99999999999",
        "?model=m:1&digest=sha256:{d}&start=9999999999999999&bytes=1",
        "?model=m:1&digest=sha256:{d}/../../manifests&start=0&bytes=1",
        "?model=m:1&digest=sha256-{d}&start=0&bytes=1",
        "?model=m:1&digest=../../../../etc/passwd&start=0&bytes=1",
        "?model=../../etc/passwd&digest=sha256:{d}&start=0&bytes=1",
        "?model=..%2F..%2Fetc%2Fpasswd&digest=sha256:{d}&start=0&bytes=1",
        "?model=m%3A1%00&digest=sha256:{d}&start=0&bytes=1",
        "?model=m:1&digest=sha256:{d}&start=0&bytes=1%20",
        "?digest=sha256:{d}&model=m:1&start=0&bytes=1",
        "?model=m:1&digest=sha256:{d}&start=\u0663&bytes=1",
        "/../part?model=m:1&digest=sha256:{d}&start=0&bytes=1",
    ],
)
def test_what_no_node_of_ours_would_ask_is_refused(anna: OllamaStore, query: str) -> None:
    """Paths, other spellings, numbers beyond the blob, more than a part: never a byte."""
    anna.add("m:1", b"0123456789")
    (digest,) = blobs_of(anna, "m:1")

    async def main() -> None:
        async with holder(anna) as upstream:
            status, refused, body = await asked(upstream, PART + query.replace("{d}", digest[7:]))
            assert status in (400, 403, 404, 409), query
            assert refused or status == 400
            assert b"0123" not in body
            assert b"root:" not in body
            assert str(anna.directory).encode() not in body

    run_async(main())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_nothing_is_changed_by_these_routes(anna: OllamaStore, method: str) -> None:
    """They are read only."""
    anna.add("m:1", b"x")

    async def main() -> None:
        async with holder(anna) as upstream:
            before = sorted(anna.directory.rglob("*"))
            await asked(upstream, "/pairproxy/models/manifest?model=m:1", method)
            assert sorted(anna.directory.rglob("*")) == before

    run_async(main())


def test_a_model_that_was_pulled_anew_is_told_anew(anna: OllamaStore) -> None:
    """A manifest is looked up each time that one is asked for."""
    anna.add("m:1", b"old")

    async def main() -> None:
        async with holder(anna) as upstream:
            first = (await asked(upstream, "/pairproxy/models/manifest?model=m:1"))[2]
            anna.add("m:1", b"new")
            second = (await asked(upstream, "/pairproxy/models/manifest?model=m:1"))[2]
            assert first != second == anna.manifest("m:1").read_bytes()

    run_async(main())
