import asyncio
import logging
import socket
import threading
import time
from contextlib import suppress

import pytest

from pairproxy.admin import live
from pairproxy.admin.live import LEAST_S, MOST_WATCHERS
from pairproxy.core.events import DrainEnded, NodeReported, RequestArrived, TimePassed
from tests.core.told import B, ask, document
from tests.support.live import Scene, following, status_of, watched


def test_the_first_event_comes_at_once_and_nobody_keeps_it() -> None:
    """The whole status, as the schema has it; a browser is told when to ask again."""

    async def play(scene: Scene) -> None:
        async with scene.watch() as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream"
            assert response.headers["Cache-Control"] == "no-store"
            assert await response.content.readline() == b"retry: 1000\n"
            assert (await status_of(response)).requests_done == 1

    watched(play)


@pytest.mark.timed
def test_changes_are_told_soon_and_at_most_twice_a_second() -> None:
    """A hundred at once are one event; what happened last is in it."""

    async def play(scene: Scene) -> None:
        async with scene.watch() as response:
            await status_of(response)
            began = time.monotonic()
            for number in range(100):
                scene.facts.name = f"anna-{number}"
                scene.tell(RequestArrived(0.0, ask(f"r{number}")))
            assert (await status_of(response)).name == "anna-99"
            assert time.monotonic() - began > LEAST_S * 0.8
            assert scene.facts.made == 2

    watched(play)


def test_while_something_runs_a_status_comes_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages move. When nothing does, it comes seldom, and a comment shows that the daemon is there."""
    monkeypatch.setattr(live, "LEAST_S", 0.01)
    monkeypatch.setattr(live, "BUSY_S", 0.02)
    monkeypatch.setattr(live, "IDLE_S", 3600.0)
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.02)

    async def play(scene: Scene) -> None:
        scene.facts.queue_length = 1
        async with scene.watch() as response:
            for _ in range(3):
                await status_of(response)
            scene.facts.queue_length = 0
            while (await status_of(response)).queue_length:
                pass
            made = scene.facts.made
            async with asyncio.timeout(5.0):
                while await response.content.readline() != b":\n":
                    pass
            assert scene.facts.made == made
            scene.tell(RequestArrived(0.0, ask("r")))
            assert (await status_of(response)).requests_done == made + 1

    watched(play)


def test_a_peer_that_tells_nothing_new_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tells once a second that it is there; a slot that it fills is news."""
    monkeypatch.setattr(live, "LEAST_S", 0.01)

    async def play(scene: Scene) -> None:
        async with scene.watch() as response:
            await status_of(response)
            scene.tell(NodeReported(0.0, document(B)))
            await status_of(response)
            for sequence in range(2, 5):
                scene.tell(NodeReported(0.0, document(B, sequence=sequence)))
                scene.tell(TimePassed(0.0))
            assert not scene.live._changed.is_set()
            scene.tell(NodeReported(0.0, document(B, frees=(1.0,), sequence=9)))
            assert scene.live._changed.is_set()

    watched(play)


def test_a_status_is_made_once_for_all_and_only_while_somebody_watches() -> None:
    """Who comes a moment later gets the one that is there; who left costs nothing."""

    async def play(scene: Scene) -> None:
        async with scene.watch() as one, scene.watch() as other:
            assert await status_of(one) == await status_of(other)
            assert scene.live.watchers == 2
        await scene.until(lambda: scene.live.watchers == 0)
        scene.live._changed.clear()
        scene.tell(RequestArrived(0.0, ask("r")))
        assert not scene.live._changed.is_set()
        assert not scene.live._is_watched.is_set()

    watched(play, now=lambda: 0.0)


def test_a_report_that_was_made_is_told_by_the_id_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; also of the same run, when it is made anew. A report that is due is not forgotten."""
    monkeypatch.setattr(live, "LEAST_S", 0.01)
    monkeypatch.setattr(live, "IDLE_S", 3600.0)

    async def play(scene: Scene) -> None:
        scene.facts.runs = (1, "job")
        async with scene.watch() as response:
            await status_of(response)
            assert await following(response) == ("run", b'{"run":"job"}')
            scene.tell(RequestArrived(0.0, ask("r")))
            await status_of(response)
            scene.facts.report_s = 0.05  # it grew, and may be made anew then
            scene.tell(RequestArrived(0.0, ask("r")))
            await status_of(response)
            scene.facts.runs = (2, "job")
            while (told := await following(response))[0] == "status":
                pass
            assert told == ("run", b'{"run":"job"}')

    watched(play)


def test_only_so_many_may_watch_and_who_leaves_makes_room() -> None:
    """The next one is told what to do."""

    async def play(scene: Scene) -> None:
        places = [await scene.session.get(scene.url) for _ in range(MOST_WATCHERS)]
        async with scene.watch() as response:
            assert response.status == 503
            assert b"Close one of them" in await response.read()
        places.pop().close()
        await scene.until(lambda: scene.live.watchers < MOST_WATCHERS)
        async with scene.watch() as response:
            assert response.status == 200
        for place in places:
            place.close()
        await scene.until(lambda: scene.live.watchers == 0)

    watched(play)


def test_the_end_of_the_daemon_is_a_whole_answer_and_nobody_waits_for_it() -> None:
    """Each stream ends as its framing says; who comes later gets an empty one."""

    async def play(scene: Scene) -> None:
        async with scene.watch() as response:
            await status_of(response)
            scene.tell(DrainEnded(0.0))
            assert await following(response) == ("end", b"")
        async with scene.watch() as response:
            assert await response.read() == b""
        async with scene.session.head(scene.url) as response:
            assert (response.status, await response.read()) == (200, b"")

    watched(play)


def test_who_takes_nothing_gets_the_newest_and_then_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did not take is not kept for it, and its connection ends; others see all of it."""
    monkeypatch.setattr(live, "LEAST_S", 0.001)
    monkeypatch.setattr(live, "BUSY_S", 0.002)
    monkeypatch.setattr(live, "STALL_S", 0.3)

    async def play(scene: Scene) -> None:
        scene.facts.queue_length = 1
        scene.facts.name = "x" * 1_000_000
        loop = asyncio.get_running_loop()
        with socket.socket() as stalled:
            stalled.setblocking(False)
            await loop.sock_connect(stalled, ("127.0.0.1", int(scene.url.split(":")[2].split("/")[0])))
            await loop.sock_sendall(stalled, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await scene.until(lambda: scene.live.watchers == 1)
            (watcher,) = scene.live._watchers
            made = scene.facts.made
            await scene.until(lambda: scene.facts.made > made + 20)
            assert len(watcher.status) < 2_000_000
            await scene.until(lambda: scene.live.watchers == 0)
            last = b"..."
            with suppress(ConnectionResetError):
                while taken := await loop.sock_recv(stalled, 1_000_000):
                    last = taken
            assert not last.endswith(b"\r\n")  # cut in the middle: nothing waits for it to be taken

    watched(play)


@pytest.mark.parametrize("how", ["a report takes long", "grouping takes long", "no thread is free"])
def test_a_status_goes_out_however_long_it_takes_to_make_one(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """With what is known without it. Once that is made, it is told without waiting for the next one."""
    monkeypatch.setattr(live, "LEAST_S", 0.02)
    monkeypatch.setattr(live, "BUSY_S", 0.04)
    monkeypatch.setattr(live, "LATE_S", 0.01)
    monkeypatch.setattr(live, "IDLE_S", 3600.0)
    goes_on = threading.Event()

    async def play(scene: Scene) -> None:
        scene.facts.queue_length = 1
        if how == "no thread is free":
            busy = [asyncio.create_task(asyncio.to_thread(goes_on.wait, 30.0)) for _ in range(64)]
        else:
            busy = []
            scene.facts.whole = lambda: goes_on.wait(30.0)
            scene.facts.partly = scene.facts.whole if how == "grouping takes long" else scene.facts.partly
        try:
            async with scene.watch() as response, asyncio.timeout(10.0):
                for number in range(5):
                    scene.facts.name = f"anna-{number}"
                    while (await status_of(response)).name != scene.facts.name:
                        pass
                scene.facts.queue_length = 0
                while (await status_of(response)).queue_length:
                    pass
                scene.facts.runs = (1, "job")
                goes_on.set()
                while (await following(response))[0] != "run":
                    pass
        finally:
            goes_on.set()
            await asyncio.gather(*busy)

    watched(play)


@pytest.mark.parametrize("fails", [("whole",), ("whole", "partly"), ("read",)])
def test_a_status_goes_out_whatever_cannot_be_reckoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: tuple[str, ...]
) -> None:
    """It is said once, without what the fault said; then it is tried seldom, until it can be made."""
    monkeypatch.setattr(live, "LEAST_S", 0.01)
    monkeypatch.setattr(live, "BUSY_S", 0.02)
    monkeypatch.setattr(live, "FAILED_REST_S", 0.05)
    monkeypatch.setattr(live, "FAILED_REST_TIMES", 1.0)
    tried = 0

    def fault() -> None:
        nonlocal tried
        tried += 1
        raise ZeroDivisionError("a word of a prompt")

    async def play(scene: Scene) -> None:
        scene.facts.queue_length = 1
        for name in fails:
            setattr(scene.facts, name, fault)
        async with scene.watch() as response, asyncio.timeout(30.0):
            while tried < 6 or scene.facts.made <= tried:  # which never ends if each status is a try
                await status_of(response)
            scene.facts.whole = scene.facts.partly = scene.facts.read = lambda: None
            for _ in range(5):
                await status_of(response)
        told = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert len(told) == (1 if fails == ("whole",) else 2)  # one for each way to make it
        assert all("ZeroDivisionError" in one and "prompt" not in one for one in told)

    watched(play)


def test_who_takes_nothing_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is told as before, while the first one's connection is full, and after it was let go."""
    monkeypatch.setattr(live, "LEAST_S", 0.005)
    monkeypatch.setattr(live, "BUSY_S", 0.01)
    monkeypatch.setattr(live, "STALL_S", 0.5)

    async def play(scene: Scene) -> None:
        scene.facts.queue_length = 1
        scene.facts.name = "x" * 50_000
        async with scene.session.get(scene.url), scene.watch() as response, asyncio.timeout(10.0):
            while scene.live.watchers == 2:  # the first one reads nothing
                await status_of(response)
            for _ in range(5):
                await status_of(response)

    watched(play)


@pytest.mark.parametrize(
    "fields",
    [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_a_page_of_another_site_sees_nothing(fields: dict[str, str]) -> None:
    """As on every path of the port."""

    async def play(scene: Scene) -> None:
        async with scene.session.get(scene.url, headers=fields) as response:
            assert response.status == 403
        assert scene.live.watchers == 0

    watched(play)
