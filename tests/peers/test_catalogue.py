import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.catalogue import CATALOGUE_BYTES, node_catalogue
from pairproxy.core.documents import CatalogueEntry, EngineCatalogue, NodeCatalogue
from pairproxy.core.events import CatalogueReported, Event
from pairproxy.core.models import EngineId, ModelName, NodeId
from pairproxy.interfaces import CATALOGUE_PATH
from pairproxy.peers import catalogue as module
from pairproxy.peers.catalogue import CatalogueReader
from pairproxy.upstreams import Upstream
from tests.core.told import B, C
from tests.support.engine_scripts import json_bytes
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.running import run_async


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions as good as no time passes."""
    monkeypatch.setattr(module, "PAUSE_S", 0.001)


def catalogue(*models: str, node: NodeId = B) -> NodeCatalogue:
    """An Ollama's with these models."""
    entries = tuple(CatalogueEntry(ModelName(model), tags=json.dumps({"name": model})) for model in models)
    return node_catalogue(node, (EngineCatalogue(EngineId("ollama"), "ollama", entries),))


class Scene:
    """A peer that answers with ``reply``, its reader, and what that told."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.status = 200
        self.told: list[Event] = []
        self.engine = FakeEngine(self._script)
        self.reader: CatalogueReader

    async def _script(self, request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(json_bytes(msgspec.to_builtins(self.reply), self.status))

    @property
    def asked(self) -> int:
        return len(self.engine.requests)


@contextlib.asynccontextmanager
async def peer(reply: Any) -> AsyncIterator[Scene]:
    """A peer B with this answer, and a running reader."""
    scene = Scene()
    scene.reply = reply
    async with scene.engine as engine:
        upstream = Upstream(engine, limits=Limits())
        scene.reader = CatalogueReader(B, upstream, scene.told.append, lambda: 7.0)
        running = asyncio.create_task(scene.reader.run())
        try:
            yield scene
        finally:
            running.cancel()
            await asyncio.wait([running])
            await upstream.close()


def test_a_peer_is_asked_once_for_each_content() -> None:
    """A document a second names the same listing: one question. Another name: another question."""

    async def main() -> None:
        first, second = catalogue("m:1"), catalogue("m:1", "n:1")
        async with peer(first) as scene:
            for _ in range(3):
                scene.reader.hear(first.content)
            await eventually(lambda: len(scene.told) == 1)
            scene.reader.hear(first.content)
            scene.reply = second
            scene.reader.hear(second.content)
            await eventually(lambda: len(scene.told) == 2)
            assert scene.told == [CatalogueReported(7.0, first), CatalogueReported(7.0, second)]
            assert [request.path for request in scene.engine.requests] == [CATALOGUE_PATH] * 2

    run_async(main())


def test_a_peer_without_a_catalogue_is_not_asked() -> None:
    """An older daemon does not know the question."""

    async def main() -> None:
        async with peer(catalogue("m:1")) as scene:
            scene.reader.hear("")
            scene.reader.hear(catalogue("m:1").content)
            await eventually(lambda: len(scene.told) == 1)
            assert scene.asked == 1

    run_async(main())


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (catalogue("m:1", node=C), 200),
        (catalogue("m:1"), 503),
        ({"node": B, "engines": []}, 200),
        (["x" * CATALOGUE_BYTES], 200),
    ],
    ids=["of another node", "refused", "no catalogue", "too large"],
)
def test_what_is_no_catalogue_of_the_peer_is_not_told_and_asked_again(reply: Any, status: int) -> None:
    """The next document asks again, and what is in order then is taken."""

    async def main() -> None:
        async with peer(reply) as scene:
            scene.status = status
            good = catalogue("m:1")
            scene.reader.hear(good.content)
            await eventually(lambda: scene.asked == 1)
            scene.reply, scene.status = good, 200
            async with asyncio.timeout(5.0):
                while not scene.told:
                    scene.reader.hear(good.content)
                    await asyncio.sleep(0.002)
            assert scene.told == [CatalogueReported(7.0, good)]

    run_async(main())


def test_one_bad_entry_costs_only_itself() -> None:
    """The rest of the listing is told as if it was not there."""

    async def main() -> None:
        good = catalogue("m:1")
        reply = msgspec.json.decode(msgspec.json.encode(good))
        reply["engines"][0]["entries"][:0] = [{"model": 5}, {"model": "other:1", "tags": '{"name":"m:1"}'}]
        async with peer(reply) as scene:
            scene.reader.hear(good.content)
            await eventually(lambda: len(scene.told) == 1)
            (told,) = scene.told
            assert isinstance(told, CatalogueReported)
            (engine,) = told.catalogue.engines
            assert engine.entries == good.engines[0].entries

    run_async(main())


def test_a_peer_that_never_answers_in_order_is_asked_ever_more_rarely() -> None:
    """I14: megabytes of nonsense every two seconds would be worth sending."""

    async def main() -> None:
        async with peer({"no": "catalogue"}) as scene:
            times: list[float] = []
            now = asyncio.get_running_loop().time
            while len(times) < 8:
                scene.reader.hear("something")
                if scene.asked > len(times):
                    times.append(now())
                await asyncio.sleep(0.0005)
            assert times[-1] - times[0] > 0.001 * 2**6

    run_async(main())


def test_a_large_catalogue_is_taken_apart_beside_the_loop() -> None:
    """I14, F45: what takes long to read holds up nobody's heartbeat, and is told as a small one is."""

    async def main() -> None:
        large = catalogue(*(f"model-{number}-{'x' * 200}:1" for number in range(900)))
        assert len(msgspec.json.encode(large)) > module.ASIDE_BYTES
        async with peer(large) as scene:
            scene.reader.hear(large.content)
            await eventually(lambda: len(scene.told) == 1)
            assert scene.told == [CatalogueReported(7.0, large)]

    run_async(main())
