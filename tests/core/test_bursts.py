from hypothesis import given
from hypothesis import strategies as st

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
    bursts.sent(running("r0"))
    bursts.update([waiting("r1"), waiting("other", client="d")])
    assert not bursts.of(ask("r1", client="c")).is_fan_out
    bursts.update([waiting("r1"), waiting("r2", 0.5)])
    burst = bursts.of(ask("r2", client="c"))
    assert (burst.size, burst.is_fan_out, burst.began_at) == (BURST, True, 0.0)
    assert burst.settles_at() == 0.5 + SETTLES_S
    bursts.sent(running("r1", 9.0))
    bursts.update([waiting("r2", 0.5)])
    assert (burst.size, burst.settles_at()) == (BURST, 0.5 + SETTLES_S)


def test_it_is_one_until_the_last_has_ended() -> None:
    """The last two are still part of it; what comes alone later is not."""
    bursts = Bursts()
    bursts.update([waiting(f"r{number}") for number in range(5)])
    last = running("r3", 60.0)
    bursts.sent(last)
    bursts.update([waiting("r4")])
    assert bursts.of(ask("r4", client="c")).is_fan_out
    bursts.ended(last)
    late = 0.0 + TOGETHER_S + 0.1
    bursts.update([waiting("new", late)])
    assert not bursts.of(ask("new", client="c")).is_fan_out


def test_nothing_is_remembered_of_one_that_is_over() -> None:
    """Neither of one that ran, nor of one that only waited; what runs still is known."""
    bursts, runs, ends = Bursts(), running("r0"), running("r1", client="d")
    bursts.update([waiting("r0"), waiting("r1", client="d"), waiting("r2", client="e")])
    bursts.sent(runs)
    bursts.sent(ends)
    bursts.ended(ends)
    bursts.update([])
    bursts.update([])
    known = [bursts.find(ask("r", client=client)) is not None for client in "cde"]
    assert known == [True, False, False]
    bursts.ended(runs)
    bursts.update([])
    assert bursts.find(ask("r", client="c")) is None


def test_prompts_of_one_size_are_instances_of_one_task() -> None:
    """Also when the others have ended already."""
    bursts = Bursts()
    bursts.update([waiting("r1", prompt=1000), waiting("r2", prompt=1010), waiting("r3", prompt=990)])
    assert bursts.of(ask("r1", client="c")).is_alike
    bursts.update([waiting("r1", prompt=1000), waiting("r2", prompt=1300), waiting("r3")])
    bursts.update([waiting("r2", prompt=1300)])
    assert not bursts.of(ask("r2", client="c")).is_alike


def test_a_guest_is_part_of_no_burst_of_ours() -> None:
    """Its origin knows what it is part of."""
    bursts = Bursts()
    guest = running("g")
    guest.request = ask("g", client="c", origin=A)
    bursts.sent(guest)
    bursts.update([waiting("r1"), waiting("r2")])
    assert bursts.of(ask("r1", client="c")).size == 2
    bursts.ended(guest)
    bursts.update([waiting("r1"), waiting("r2")])
    assert bursts.of(ask("r1", client="c")).size == 2


@given(st.lists(st.tuples(st.sampled_from("cd"), st.sampled_from(["comes", "goes", "ends"])), max_size=60))
def test_what_runs_is_counted_as_it_begins_and_ends(steps: list[tuple[str, str]]) -> None:
    """As if all of it were looked at each time; a burst of which nothing is left is forgotten."""
    bursts, time = Bursts(), 0.0
    there: list[Running] = []
    here: list[Waiting] = []
    for number, (client, step) in enumerate(steps):
        time += 0.7
        if step == "comes":
            here.append(waiting(f"r{number}", time, client=client))
            bursts.update(here)
        elif step == "goes" and here:
            gone = here.pop(0)
            there.append(running(gone.request.id, time, client=gone.request.client))
            bursts.sent(there[-1])
        elif there:
            bursts.ended(there.pop())
        bursts.update(here)
        for one in "cd":
            size = sum(waits.request.client == one for waits in here)
            size += sum(runs.request.client == one for runs in there)
            burst = bursts.find(ask("r", client=one))
            assert size == (0 if burst is None else burst.size)
            assert burst is None or burst.together <= burst.most


def test_who_is_asked_for_twice_hears_what_became_of_it_meanwhile() -> None:
    """Of a burst that began since, and of one that is over."""
    bursts, asked = Bursts(), ask("r", client="c")
    assert bursts.find(asked) is None
    bursts.update([waiting("r0")])
    assert bursts.find(asked) is bursts.of(ask("other", client="c"))
    bursts.update([])
    bursts.update([])
    assert bursts.find(asked) is None
