"""What tests of history share."""

from pathlib import Path

import pytest

from tests.history.kept import Kept


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A history of a new home."""
    return Kept(tmp_path)
