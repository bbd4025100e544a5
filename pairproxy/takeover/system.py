"""This machine, as steps act on it."""

from collections.abc import Callable

from pairproxy.takeover.machine import Machine
from pairproxy.takeover.registry import user_variables
from pairproxy.takeover.running import Runner


def this_machine(runner: Runner, is_stopped: Callable[[], bool] = lambda: False) -> Machine:
    """What steps act through here. ``is_stopped``: whether somebody asked for the end."""
    return Machine(runner, user_variables(), is_stopped)
