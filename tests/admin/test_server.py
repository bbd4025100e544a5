import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession

from pairproxy.admin.server import CHANGE_BYTES, AdminPort
from pairproxy.api.schema import Explanation, Report, Status
from pairproxy.config import Limits
from pairproxy.core.errors import NotRemembered, StoreError
from pairproxy.core.whatif.recording import Recording
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from tests.support.raw_client import MAKERS
from tests.support.running import run_async

TOKEN = "a-token-of-this-test"


async def echo(body: bytes) -> object:
    """The change that can be made here: says what it was sent."""
    if body == b"impossible":
        raise StoreError("A file is damaged. Remove it.")
    return {"did": body.decode()}


STATUS = Status("0.1.0", "N", "anna", 1.0, "fastest-finish", False, 0, (), (), 0, None, {}, None)


class Admin:
    """An admin port over fixed values, and a client of it."""

    def __init__(self, port: int, session: ClientSession) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._session = session

    async def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[ClientResponse, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self.url + path, headers=named, data=body) as response:
            return response, await response.read()


STORY = Explanation("abc", "m", "openai", "/v1", "done", "", 1.0, None, "", None, 0.0, 2.0, 1, 0, 1, (), {})


class Fixed:
    """There is one run, which has no name, and one request."""

    def __init__(self, is_ready: bool) -> None:
        self._is_ready = is_ready

    def status(self) -> Callable[[], Status]:
        return lambda: STATUS

    def report(
        self, name: str | None, *, with_recording: bool = False, is_watched: bool = False
    ) -> Callable[[], Report]:
        if is_watched:
            return lambda: Report(None, (), {}, node="of before")
        recording = Recording("r", "N", "fastest-finish", 1.0, ()) if with_recording else None
        return lambda: Report(None, (), {"N": "anna" if name is None else name}, recording)

    def explanation(self, request: str) -> Explanation:
        if request != "abc":
            raise NotRemembered("No request by this id is in memory.")
        return STORY

    def is_ready(self) -> bool:
        return self._is_ready


@asynccontextmanager
async def admin(*, is_ready: bool = True) -> AsyncIterator[Admin]:
    """The port on loopback."""
    port = AdminPort(Fixed(is_ready), Limits(), Gate("testhost"), TOKEN, {"/echo": echo})
    (sock,) = bind("127.0.0.1", 0, "")
    number = port_of(sock)
    await port.start(sock)
    try:
        async with ClientSession() as session:
            yield Admin(number, session)
    finally:
        await port.stop()


def ask(
    path: str, method: str = "GET", body: bytes | None = None, *, is_ready: bool = True, **headers: str
) -> tuple[ClientResponse, bytes]:
    """One request to a fresh port."""

    async def scene() -> tuple[ClientResponse, bytes]:
        async with admin(is_ready=is_ready) as port:
            return await port.ask(path, method, body, **headers)

    return run_async(scene())


def test_status_is_the_schema_as_json_that_nobody_keeps() -> None:
    """Encoded as it is; no cache may store it, no browser may guess what it is."""
    response, body = ask("/status")
    assert response.status == 200
    assert msgspec.json.decode(body, type=Status) == STATUS
    assert response.headers["Content-Type"].startswith("application/json")
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_report_is_the_last_run_or_none() -> None:
    """Without a name it is what there is, also if there is nothing."""
    response, body = ask("/report")
    assert (response.status, msgspec.json.decode(body, type=Report)) == (200, Report(None, (), {"N": "anna"}))


def test_a_run_that_is_not_known_is_404() -> None:
    """With a name that nobody used."""
    response, body = ask("/report?run=never")
    assert (response.status, "no run of this name" in json.loads(body)["error"]) == (404, True)


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
def test_health_says_that_it_lives_and_ready_that_it_serves(is_ready: bool, status: int) -> None:
    """Live is always live; ready only when some place takes work."""
    response, body = ask("/health", is_ready=is_ready)
    assert (response.status, json.loads(body)) == (200, {"status": "ok"})
    response, body = ask("/ready", is_ready=is_ready)
    assert (response.status, json.loads(body)) == (status, {"ready": is_ready})


def test_an_unknown_path_says_which_there_are() -> None:
    """A 404 that helps."""
    response, body = ask("/")
    assert response.status == 404
    assert "/status" in json.loads(body)["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(method: str) -> None:
    """Every method but GET and HEAD is refused."""
    response, _ = ask("/status", method)
    assert response.status == 405


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/status"), ("GET", "/x"), ("PUT", "/"), ("POST", "/echo")]
)
def test_no_answer_says_with_what_it_was_made(method: str, path: str) -> None:
    """Neither aiohttp nor Python is named, whatever the status."""

    async def main() -> None:
        async with admin() as port:
            response, _ = await port.ask(path, method)
            assert not MAKERS.search(str(response.headers))

    run_async(main())


def test_head_has_no_body() -> None:
    """HEAD is GET without its body."""
    response, body = ask("/status", "HEAD")
    assert (response.status, body) == (200, b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:11633"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Origin": "http://localhost:11633"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "testhost.local"}, 200),
    ],
)
def test_no_web_page_can_read_it(headers: dict[str, str], status: int) -> None:
    """Rebound names and foreign origins get nothing of what this machine does."""
    response, body = ask("/status", "GET", None, **headers)  # type: ignore[arg-type]
    assert response.status == status
    if status == 403:
        assert b"anna" not in body


def test_who_watches_may_get_a_report_of_before() -> None:
    """That is asked for by its own word; all others hear what is true now."""
    for path, node in (("/report?watched=true", "of before"), ("/report?watched=1", ""), ("/report", "")):
        _, body = ask(path)
        assert msgspec.json.decode(body, type=Report).node == node


def test_a_report_can_come_with_its_recording() -> None:
    """For whoever wants to replay it; faces that only look do without."""
    _, plain = ask("/report")
    _, recorded = ask("/report?recording=true")
    assert msgspec.json.decode(plain, type=Report).recording is None
    found = msgspec.json.decode(recorded, type=Report).recording
    assert found is not None
    assert found.policy == "fastest-finish"


def test_a_request_is_explained_by_its_id() -> None:
    """One that is not known is 404 with a sentence."""
    response, body = ask("/requests/abc")
    assert (response.status, msgspec.json.decode(body, type=Explanation)) == (200, STORY)
    response, body = ask("/requests/xyz")
    assert (response.status, json.loads(body)) == (404, {"error": "No request by this id is in memory."})


def change(body: bytes = b"x", path: str = "/echo", **headers: str) -> tuple[int, dict[str, str]]:
    """One POST; the status and the JSON that came."""
    response, told = ask(path, "POST", body, **headers)  # type: ignore[arg-type]
    return response.status, json.loads(told)


def test_who_shows_the_token_may_change_things() -> None:
    """The change is handed the body; what it cannot do is answered with its sentence."""
    shown = f"Bearer {TOKEN}"
    assert change(Authorization=shown) == (200, {"did": "x"})
    assert change(b"impossible", Authorization=shown) == (500, {"error": "A file is damaged. Remove it."})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \xff\xfe"},
        {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"},
        {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"},
        {"Authorization": f"Bearer {TOKEN}", "Sec_Fetch_Site": "cross-site"},
    ],
)
def test_nobody_else_may(headers: dict[str, str]) -> None:
    """Without exactly the token, and from a web page with it, nothing is done and no CORS header is sent."""
    response, told = ask("/echo", "POST", b"x", **headers)  # type: ignore[arg-type]
    assert response.status == 403
    assert b"did" not in told
    assert TOKEN.encode() not in told
    assert not [name for name in response.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_a_change_is_a_post(method: str) -> None:
    """Nothing that a link, an image or a preflight can send does it."""
    response, told = ask("/echo", method, None, Authorization=f"Bearer {TOKEN}")
    assert response.status in (404, 405)
    assert b"did" not in told


def test_a_change_is_small() -> None:
    """A body that is no list of settings is refused before it is kept."""
    status, told = change(b"x" * (CHANGE_BYTES + 1), Authorization=f"Bearer {TOKEN}")
    assert status == 413
    assert str(CHANGE_BYTES) in told["error"]
