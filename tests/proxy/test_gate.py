"""Which names and which pages may use a loopback port."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.errors import BadRequest, NotAllowed
from pairproxy.proxy.gate import HOST_BYTES, HOSTS, Gate, is_like_page

GATE = Gate("MyBox")
OWN = [
    "localhost", "LOCALHOST:11434", "localhost.", "mybox", "MyBox:1", "mybox.local", "127.0.0.1",
    "127.9.9.9:80", "[::1]", "[::1]:11434", "[0:0:0:0:0:0:0:1]:1",
]  # fmt: skip
FOREIGN = [
    "evil.example", "localhost.evil.example", "evil-localhost", "localhost.local", "mybox.evil", "xmybox",
    "127.0.0.1.nip.example", "0.0.0.0:11434", "10.0.0.1", "[::]", "[fe80::1]", "2130706433", "0x7f.1",
    "127.1",
]  # fmt: skip
MALFORMED = [
    "", " ", "a b", "localhost ", "localhost,evil", "localhost\\evil", "localhost@evil", "localhost/evil",
    "localhost:", "localhost:x", "localhost:123456", "localhost#", "http://localhost", "[::1",
    "[::1%25eth0]",
]  # fmt: skip
PAGES = [
    "http://localhost", "https://localhost:3000", "http://127.0.0.1:8080", "http://0.0.0.0:1",
]  # fmt: skip
APPS = [
    "app://obsidian.md", "file://", "tauri://localhost", "vscode-webview://abc",
    "vscode-file://vscode-app",
]  # fmt: skip
STRANGE_PAGES = [
    "", "http://localhost evil", "https://evil.example", "null", "http://localhost.evil.example",
    "http://localhost:3000@evil", "http://evil/localhost", "http://localhost/", "http://localhost#x",
    "http://localhost:", "http://localhost:123456", "http://mybox", "http://[::1]:1", "http://127.0.0.2",
    "HTTP://localhost", "app://a@evil", "chrome-extension://abc", "localhost",
    "//localhost", "ftp://localhost", "http://", "xapp://a",
]  # fmt: skip


@pytest.mark.parametrize("host", OWN)
def test_this_machines_own_names_get_in(host: str) -> None:
    """Its loopback addresses and its names, with any port."""
    GATE.check([host], [], None)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_points_here_is_no_name_of_this_machine(host: str) -> None:
    """DNS rebinding brings the stranger's name in Host, and that gets nothing."""
    with pytest.raises(NotAllowed):
        GATE.check([host], [], None)


@pytest.mark.parametrize(
    "name", ["host.docker.internal:11434", "Host.Containers.Internal", "gateway.docker.internal"]
)
def test_containers_call_client_ports_by_names_of_their_own(name: str) -> None:
    """Docker Desktop brings it to loopback. Nobody else is called so, and no page gets in by it."""
    assert GATE.check([name], [], None, knows_containers=True) is False
    with pytest.raises(NotAllowed):
        GATE.check([name], [], None)
    for origins, site in (([f"http://{name}"], None), (["null"], None), ([], "same-origin"), ([], "none")):
        with pytest.raises(NotAllowed):
            GATE.check([name], origins, site, knows_containers=True, can_engine_judge=True)
    with pytest.raises(NotAllowed):
        GATE.check([name], [], None, knows_containers=True, is_like_page=True)
    GATE.check(["localhost"], [], None, knows_containers=True, is_like_page=True)
    for other in ("docker.internal", "x.host.docker.internal", "host.docker.internal.evil.example"):
        with pytest.raises(NotAllowed):
            GATE.check([other], [], None, knows_containers=True)


@pytest.mark.parametrize(("method", "fields", "is_like"), [
    ("GET", {}, False), ("GET", {"Accept": "*/*"}, False), ("GET", {"Accept-Language": "de"}, True),
    ("HEAD", {"Accept-Language": ""}, True), ("GET", {"Accept-Language": "*"}, True),
    ("GET", {"Accept-Language": "*", "Sec-Fetch-Mode": "cors"}, False),
    ("POST", {"Accept-Language": "de"}, False),
])  # fmt: skip
def test_a_page_is_known_by_what_it_cannot_leave_out(
    method: str, fields: dict[str, str], is_like: bool
) -> None:
    """Browsers always say a language; Node's fetch says one too, and that it is fetch."""
    assert is_like_page(method, fields) is is_like


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], *([one] for one in MALFORMED)])
def test_a_host_is_one_and_well_formed(hosts: list[str]) -> None:
    """Missing, doubled or malformed: a bad request."""
    with pytest.raises(BadRequest):
        GATE.check(hosts, [], None)


@pytest.mark.parametrize("origin", PAGES + APPS)
def test_pages_and_apps_of_this_machine_get_in(origin: str) -> None:
    """As with Ollama's defaults; where the page was asked from does not matter then."""
    GATE.check(["localhost"], [origin], "cross-site")


@pytest.mark.parametrize(("host", "origin", "is_let_in"), [
    ("mybox.local:1", "http://mybox.local:1", True), ("[::1]:1", "https://[::1]:1", True),
    ("mybox.local:1", "http://mybox.local:2", False), ("mybox", "http://localhost.mybox", False),
])  # fmt: skip
def test_a_page_that_the_port_itself_served_gets_in(host: str, origin: str, is_let_in: bool) -> None:
    """Its Origin is the very Host it asks, whatever name of this machine that is."""
    if is_let_in:
        GATE.check([host], [origin], None)
    else:
        with pytest.raises(NotAllowed):
            GATE.check([host], [origin], None)


@pytest.mark.parametrize("origin", STRANGE_PAGES)
def test_other_pages_do_not(origin: str) -> None:
    """No page of the web, no sandboxed one, no trick with the text."""
    with pytest.raises(NotAllowed):
        GATE.check(["localhost"], [origin], None)


@pytest.mark.parametrize(("origin", "is_asked"), [
    ("https://evil.example", True), ("null", True), ("chrome-extension://abc", True),
    ("moz-extension://6f0c-1", True), ("http://[fe80::1]:80", True), ("http://localhost", None),
    ("tauri://localhost", None), ("", False), (" ", False), ("http://a@evil.example", False),
    ("http://localhost:x", False), ("http://a b", False), ("http://a/", False), ("http://a\\b", False),
    ("evil.example", False), ("null ", False), ("http://a, http://b", False),
])  # fmt: skip
def test_an_engine_with_a_list_of_its_own_judges_other_pages(origin: str, is_asked: bool | None) -> None:
    """None: it is known here. What no browser would send is refused all the same."""
    if is_asked is False:
        with pytest.raises(NotAllowed):
            GATE.check(["localhost"], [origin], None, can_engine_judge=True)
    else:
        assert GATE.check(["localhost"], [origin], None, can_engine_judge=True) is bool(is_asked)


def test_that_engine_judges_neither_names_nor_what_has_no_origin() -> None:
    """Another Host, two Origins, a cross-site request without one."""
    for hosts, origins in (
        (["evil.example"], ["http://evil.example"]),
        (["localhost"], ["http://a", "http://a"]),
        (["localhost"], []),
    ):
        with pytest.raises(NotAllowed):
            GATE.check(hosts, origins, "cross-site", can_engine_judge=True)


def test_an_origin_is_one() -> None:
    """A good Origin beside a bad one is none."""
    with pytest.raises(NotAllowed):
        GATE.check(["localhost"], ["http://localhost", "https://evil.example"], None)


@pytest.mark.parametrize(("site", "is_let_in"), [
    (None, True), ("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False)
])  # fmt: skip
def test_a_page_that_hides_its_origin_is_told_by_its_browser(site: str | None, is_let_in: bool) -> None:
    """Images, forms and links of other sites carry no Origin, but they carry Sec-Fetch-Site."""
    if is_let_in:
        GATE.check(["localhost"], [], site)
    else:
        with pytest.raises(NotAllowed):
            GATE.check(["localhost"], [], site)


def test_the_name_of_the_machine_is_asked_for() -> None:
    """Without a name given, it is the system's; a machine without one is localhost."""
    Gate().check(["localhost"], [], None)
    with pytest.raises(NotAllowed):
        Gate("").check([".local"], [], None)


@given(st.text(max_size=40))
def test_no_text_gets_in_by_surprise(text: str) -> None:
    """Whatever stands in Host and Origin: it is refused by an error of ours, or it is one of our names."""
    for hosts, origins in (([text], []), (["localhost"], [text])):
        try:
            GATE.check(hosts, origins, None)
        except (BadRequest, NotAllowed):
            continue
        name = text.lower()
        own = ("localhost", "mybox", "127.", "0.0.0.0", "[", "app://", "file://", "tauri://", "vscode-")
        assert name.removeprefix("https://").removeprefix("http://").startswith(own)


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    """Foreign ones never, our own up to a number and a length; each is judged as it was the first time."""
    long = "a" * (HOST_BYTES + 1)
    gate = Gate(long)
    for _ in range(2):
        with pytest.raises(NotAllowed):
            gate.check(["evil.example"], [], None)
        assert not gate.check([long], [], None)
    assert not gate._hosts
    for number in range(2 * HOSTS):
        for _ in range(2):
            assert not gate.check([f"127.0.0.1:{number}"], [], None)
    assert len(gate._hosts) == HOSTS
