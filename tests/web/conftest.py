"""The browser, one for each file of tests: while it runs, this thread has an event loop."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; skips where there is none."""
    with chromium() as found:
        yield found
