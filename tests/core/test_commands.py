import dataclasses
from typing import get_args

import pytest

from pairproxy.core.commands import Command, Refuse
from pairproxy.core.errors import NodeGone
from pairproxy.core.models import RequestId


def test_every_command_says_whom_it_is_about() -> None:
    """A request or an attempt; and nobody changes a command."""
    for kind in get_args(Command):
        assert next(iter(dataclasses.fields(kind))).name in {"request", "attempt"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Refuse(RequestId("r"), NodeGone("x")).request = RequestId("s")  # type: ignore[misc]
