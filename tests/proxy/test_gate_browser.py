"""What tells a page from a program where a browser names no Origin: in a real one, and in real Node."""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from multidict import CIMultiDict

from pairproxy.proxy.gate import is_like_page
from tests.support.browser import chromium
from tests.support.engine_scripts import json_reply
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

NAME = "host.docker.internal"
PAGE = b"""<title>page</title><script>(async () => {
  const plain = {referrerPolicy: "no-referrer"};
  await fetch("/plain");
  await fetch("/star", {...plain, headers: {"Accept-Language": "*"}});
  await fetch("/empty", {...plain, headers: {"Accept-Language": ""}});
  await fetch("/mode", {...plain, headers: {"Sec-Fetch-Mode": "cors"}});
  await fetch("/head", {...plain, method: "HEAD"});
  const old = new XMLHttpRequest();
  old.open("GET", "/old", false); old.setRequestHeader("Accept-Language", ""); old.send();
  await fetch("/post", {...plain, method: "POST", body: "{}"});
  await fetch("/delete", {...plain, method: "DELETE"});
  document.title = "done";
})()</script>"""


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[tuple[str, str, CIMultiDict[str]]]]]:
    """A server of the page, its port, and what came: (method, path, headers)."""
    came: list[tuple[str, str, CIMultiDict[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            came.append((self.command, self.path, CIMultiDict(self.headers.items())))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(PAGE if self.path == "/" else b"{}")

        do_GET = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 the library's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], came
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_a_page_under_a_name_of_containers_shows_itself_by_something() -> None:
    """A rogue DNS made the name its own: of what it reads Chromium tells no Origin and no site."""
    with listening() as (port, came), chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser:
        page = browser.new_page()
        page.goto(f"http://{NAME}:{port}/")
        page.wait_for_function("document.title === 'done'", timeout=20_000)
    assert {path for _, path, _ in came} >= {"/plain", "/star", "/empty", "/mode", "/head", "/old", "/post"}
    for method, path, fields in came:
        assert fields["Host"] == f"{NAME}:{port}"
        assert "Origin" in fields or is_like_page(method, fields), path
    assert not any("Origin" in fields or "Sec-Fetch-Site" in fields for m, _, fields in came if m == "GET")


@pytest.mark.slow
def test_node_in_a_container_is_no_page() -> None:
    """Its fetch sends a language as well, and beside it what no page can send."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here, so what its fetch sends was not looked at")
    with listening() as (port, came):
        script = f"fetch('http://127.0.0.1:{port}/api/tags').then((one) => one.text())"
        subprocess.run([node, "-e", script], check=True, timeout=30)
    ((method, _, fields),) = came
    assert not is_like_page(method, fields)


@pytest.mark.parametrize(
    ("line", "fields", "status"),
    [
        ("GET /api/tags", (), 200),
        ("GET /slots", ("Accept-Language: en",), 403),
        ("GET /api/tags", ("Accept-Language: *",), 403),
        ("HEAD /", ("Accept-Language:",), 403),
        ("GET /api/tags", ("Accept-Language: *", "Sec-Fetch-Mode: cors"), 200),
        ("POST /api/chat", ("Accept-Language: *",), 200),
        ("POST /api/chat", (f"Origin: http://{NAME}:11434",), 403),
        ("POST /api/chat", ("Origin: null",), 403),
    ],
)
def test_the_client_port_goes_by_it(line: str, fields: tuple[str, ...], status: int) -> None:
    """Nothing of what a page asks under such a name comes to the engine; what programs ask does."""

    async def main() -> None:
        async with FakeEngine(json_reply({"models": []})) as engine, Node(engine) as node:
            body = b'{"model":"m:1","messages":[]}' if line.startswith("POST") else None
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(
                    request(f"{line} HTTP/1.1", body, *fields, host=f"{NAME}:11434"),
                    is_head=line.startswith("HEAD"),
                )
            assert (reply.status, len(engine.requests)) == (status, int(status == 200))

    run_async(main())
