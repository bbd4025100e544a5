import sys

from pairproxy.takeover.running import Runner
from pairproxy.takeover.system import this_machine


def test_steps_act_through_the_given_runner() -> None:
    """And look whether somebody asked for the end; only Windows keeps a person's variables."""
    runner = Runner({"PATH": ""})
    machine = this_machine(runner, lambda: True)
    assert machine.runner is runner
    assert machine.is_stopped()
    assert not this_machine(runner).is_stopped()
    assert (machine.variables is not None) is (sys.platform == "win32")
