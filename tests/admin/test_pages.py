import asyncio
import json
import threading
from typing import Any

from pairproxy.admin.pages import kept, reckoned
from tests.support.asked import Question
from tests.support.running import run_async

REQUEST = Question("/")


def body_of(response: Any) -> bytes:
    """What was answered."""
    body: bytes = response.body
    return body


def test_it_looks_in_the_loop_and_reckons_in_a_thread() -> None:
    """What is known is read where it changes; what takes long is done elsewhere."""

    async def story() -> None:
        where: list[int] = []

        def look() -> Any:
            where.append(threading.get_ident())

            def make() -> dict[str, int]:
                where.append(threading.get_ident())
                return {"answer": 42}

            return make

        response = await reckoned(look)(REQUEST)
        assert json.loads(body_of(response)) == {"answer": 42}
        assert where[0] == threading.get_ident() != where[1]

    run_async(story())


def test_one_is_reckoned_at_a_time() -> None:
    """Many who look at once do not take all cores."""

    async def story() -> None:
        running, most = 0, 0
        begun, go = threading.Event(), threading.Event()

        def make() -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            begun.set()
            go.wait(5.0)
            running -= 1
            return 1

        page = reckoned(lambda: make)
        asked = [asyncio.ensure_future(page(REQUEST)) for _ in range(4)]
        await asyncio.to_thread(begun.wait, 5.0)
        go.set()
        await asyncio.gather(*asked)
        assert most == 1

    run_async(story())


def test_what_never_changes_is_made_once() -> None:
    """When it is first asked for, and not before."""

    async def story() -> None:
        made: list[int] = []

        def make() -> bytes:
            made.append(1)
            return b'{"a":1}'

        page = kept(make)
        assert made == []
        assert [body_of(await page(REQUEST)) for _ in range(3)] == [b'{"a":1}'] * 3
        assert made == [1]

    run_async(story())
