import gzip
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from yarl import URL

from pairproxy.admin.server import AdminPort
from pairproxy.config import Limits
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import bind, port_of
from pairproxy.web.serving import PAGE_BYTES, POLICY, page_handlers, read_page
from tests.admin.test_server import Fixed
from tests.support.running import run_async

PAGE = read_page()
SCRIPTS = {path: content.decode() for path, content in PAGE.items() if path.endswith(".js")}


@asynccontextmanager
async def served() -> AsyncIterator[tuple[ClientSession, str]]:
    """The page at an admin port on loopback."""
    port = AdminPort(Fixed(is_ready=True), Limits(), Gate("testhost"), "", {}, page_handlers())
    (sock,) = bind("127.0.0.1", 0, "")
    number = port_of(sock)
    await port.start(sock)
    try:
        async with ClientSession() as session:
            yield session, f"http://127.0.0.1:{number}"
    finally:
        await port.stop()


def test_the_page_is_small() -> None:
    """All its files together stay under 100 kB, before any compression."""
    sizes = {path: len(content) for path, content in PAGE.items()}
    assert sum(sizes.values()) < PAGE_BYTES, sizes
    assert "/" in PAGE
    assert sum(len(gzip.compress(content)) for content in PAGE.values()) < PAGE_BYTES


def test_the_page_needs_nothing_from_elsewhere() -> None:
    """No file names another host, and what each asks for is there."""
    for path, content in PAGE.items():
        text = content.decode()
        assert not re.findall(
            r"""(?:src|href|url|import|from)[=\s("']+(?:https?:)?//(?!localhost)""", text
        ), path
        for wanted in re.findall(r'(?:from|import) "\./([a-z_]+\.js)"', text):
            assert f"/page/{wanted}" in PAGE, f"{path} asks for {wanted}"
    for wanted in re.findall(r'(?:src|href)="(/[^"]+)"', PAGE["/"].decode()):
        assert wanted in PAGE


def test_no_script_makes_text_a_part_of_the_document() -> None:
    """What would read names as HTML or as a program is in no file of the page."""
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|DOMParser|\.srcdoc"
    assert not {path: found for path, text in SCRIPTS.items() if (found := re.findall(forbidden, text))}
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]* src=)", PAGE["/"].decode())


def test_scripts_are_short() -> None:
    """The rule for our own modules holds for the page's."""
    long = {path: n for path, text in SCRIPTS.items() if (n := len(text.splitlines())) > 300}
    assert not long


def test_each_file_has_its_type_and_the_policy() -> None:
    """A browser is told what it is, and that nothing else may be loaded, run, framed or read."""

    async def story() -> None:
        async with served() as (session, url):
            for path, content in PAGE.items():
                async with session.get(url + path) as response:
                    assert response.status == 200
                    assert await response.read() == content
                    assert response.headers["Content-Security-Policy"] == POLICY
                    assert response.headers["X-Content-Type-Options"] == "nosniff"
                    assert response.headers["Referrer-Policy"] == "no-referrer"
                    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
            async with session.get(f"{url}/page/main.js") as response:
                assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"
            async with session.head(url) as response:
                assert (response.status, await response.read()) == (200, b"")

    run_async(story())


def test_the_policy_lets_nothing_in() -> None:
    """No inline script or style, no other host, no frame around it, no place for a form or a base."""
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert {rules[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert {rules[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


def test_a_file_that_is_known_is_not_sent_again() -> None:
    """If-None-Match with its ETag answers 304, also in a list and as a weak one; another one gets it."""

    async def story() -> None:
        async with served() as (session, url):
            async with session.get(f"{url}/page/page.css") as response:
                tag = response.headers["ETag"]
            for known in (tag, f'"other", W/{tag}', "*"):
                async with session.get(f"{url}/page/page.css", headers={"If-None-Match": known}) as response:
                    assert (response.status, await response.read()) == (304, b""), known
            async with session.get(f"{url}/page/page.css", headers={"If-None-Match": '"other"'}) as response:
                assert response.status == 200

    run_async(story())


@pytest.mark.parametrize(
    "path", ["/page/", "/page/../serving.py", "/page/%2e%2e/serving.py", "/page/none.js", "//"]
)
def test_there_is_nothing_but_the_page(path: str) -> None:
    """A path that is in no table is answered with a sentence, whatever lies on the disk."""

    async def story() -> None:
        async with served() as (session, url), session.get(URL(url + path, encoded=True)) as response:
            assert response.status == 404
            assert "error" in await response.json()

    run_async(story())


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_site_gets_nothing(headers: dict[str, str]) -> None:
    """A name that was pointed here, another origin's script and another site's frame are refused."""

    async def story() -> None:
        async with served() as (session, url), session.get(url, headers=headers) as response:
            assert response.status == 403
            assert b"<" not in await response.read()

    run_async(story())


def test_a_link_on_another_site_leads_to_the_page_and_to_nothing_else() -> None:
    """Who follows one sees the page; a frame of that page, or the JSON itself, is refused."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    cases = [
        ("/", link, 200),
        ("/", link | {"Sec-Fetch-Dest": "iframe"}, 403),
        ("/", link | {"Host": "evil.example"}, 403),
        ("/status", link, 403),
        ("/page/main.js", link, 403),
    ]

    async def story() -> None:
        async with served() as (session, url):
            for path, headers, status in cases:
                async with session.get(url + path, headers=headers) as response:
                    assert response.status == status, (path, headers)

    run_async(story())


def test_every_file_of_the_page_is_served() -> None:
    """What lies in its folder, and so in the built package, is of a kind that is served."""
    folder = Path(__file__).parents[2] / "pairproxy" / "web" / "page"
    assert {path.name for path in folder.iterdir()} == {
        "index.html" if path == "/" else path.removeprefix("/page/") for path in PAGE
    }
