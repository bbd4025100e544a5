"""The system's own Chromium over the page; what goes wrong in it fails the test.

    with chromium() as browser, watched(browser) as page:
        page.goto(url)

A page that is left must have been silent: no console message, no error, no request to anything but the hosts
that it was sent to, nothing that its policy had to forbid.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NOTED = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`forbidden: ${event.violatedDirective} ${event.blockedURI}`));
"""
GONE = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RESET",
        "net::ERR_EMPTY_RESPONSE")  # fmt: skip
"""What Chromium itself writes to the console when a daemon is away: no page can keep it from that."""


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    """A headless browser, started with more flags; skips where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium here (Debian: chromium), so the page was not looked at in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright, so no browser was driven")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", *flags])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Faults:
    """What a page should not have done."""

    found: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    may_lose_daemon: bool = False

    def console(self, message: Any) -> None:
        """A line that the page, or the browser about it, wrote."""
        if not (self.may_lose_daemon and any(gone in message.text for gone in GONE)):
            self.found.append(f"console {message.type}: {message.text} {message.location.get('url', '')}")

    def asked(self, request: Any) -> None:
        """A request that left the page."""
        host = urlsplit(request.url).netloc
        if request.is_navigation_request() and request.frame.parent_frame is None:
            self.hosts.add(host)
        elif host and host not in self.hosts:
            self.found.append(f"asked {request.url}")


@contextlib.contextmanager
def watched(browser: Any, *, may_lose_daemon: bool = False, **options: Any) -> Iterator[Any]:
    """A page of its own; ``options`` are those of playwright's new_context. Fails if it was not silent.

    ``may_lose_daemon``: the browser may say that nobody answers.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
    context.set_default_timeout(20_000)
    page, faults = context.new_page(), Faults(may_lose_daemon=may_lose_daemon)
    page.add_init_script(NOTED)
    page.on("console", faults.console)
    page.on("pageerror", lambda error: faults.found.append(f"error: {error}"))
    page.on("request", faults.asked)
    try:
        yield page
    finally:
        context.close()
    assert not faults.found, "\n".join(faults.found)
