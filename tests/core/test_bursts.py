from pairproxy.core.bursts import BURST, SETTLES_S, TOGETHER_S, Bursts
from pairproxy.core.models import AttemptId, RequestId
from pairproxy.core.queue import Waiting
from pairproxy.core.running import Running
from tests.core.told import FAST, A, ask, at


def waiting(name: str, arrived_at: float = 0.0, *, prompt: int = 100, client: str = "c") -> Waiting:
    """A request in the queue."""
    return Waiting(ask(name, prompt=prompt, client=client), arrived_at)


def running(name: str, dispatched_at: float = 0.0, *, client: str = "c") -> Running:
    """A request on an engine."""
    return Running(AttemptId(RequestId(name), 1), ask(name, client=client), at(A), FAST, dispatched_at, 1.0)


def test_a_few_requests_of_one_client_at_once_are_a_fan_out() -> None:
    """Those that run count, those of others do not; it has settled a moment after the last arrival."""
    bursts = Bursts()
    bursts.update([waiting("r1"), waiting("other", client="d")], [running("r0")])
    assert not bursts.of(ask("r1", client="c")).is_fan_out
    bursts.update([waiting("r1"), waiting("r2", 0.5)], [running("r0")])
    burst = bursts.of(ask("r2", client="c"))
    assert (burst.size, burst.is_fan_out, burst.began_at) == (BURST, True, 0.0)
    assert burst.settles_at() == 0.5 + SETTLES_S
    bursts.update([waiting("r2", 0.5)], [running("r0"), running("r1", 9.0)])
    assert bursts.of(ask("r2", client="c")).settles_at() == 0.5 + SETTLES_S


def test_it_is_one_until_the_last_has_ended() -> None:
    """The last two are still part of it; what comes alone later is not."""
    bursts = Bursts()
    bursts.update([waiting(f"r{number}") for number in range(5)], [])
    bursts.update([waiting("r4")], [running("r3", 60.0)])
    assert bursts.of(ask("r4", client="c")).is_fan_out
    late = 0.0 + TOGETHER_S + 0.1
    bursts.update([waiting("new", late)], [])
    assert not bursts.of(ask("new", client="c")).is_fan_out


def test_prompts_of_one_size_are_instances_of_one_task() -> None:
    """Also when the others have ended already."""
    bursts = Bursts()
    bursts.update([waiting("r1", prompt=1000), waiting("r2", prompt=1010), waiting("r3", prompt=990)], [])
    assert bursts.of(ask("r1", client="c")).is_alike
    bursts.update([waiting("r1", prompt=1000), waiting("r2", prompt=1300), waiting("r3")], [])
    bursts.update([waiting("r2", prompt=1300)], [])
    assert not bursts.of(ask("r2", client="c")).is_alike


def test_a_guest_is_part_of_no_burst_of_ours() -> None:
    """Its origin knows what it is part of."""
    bursts = Bursts()
    guest = running("g")
    guest.request = ask("g", client="c", origin=A)
    bursts.update([waiting("r1"), waiting("r2")], [guest])
    assert bursts.of(ask("r1", client="c")).size == 2
