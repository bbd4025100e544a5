from collections import Counter
from itertools import combinations, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.queue import MOST_CLIENTS, NOWHERE_S, PASSED_S, RequestQueue, Waiting
from tests.core.told import Told, ask, queued, sent

EACH = 100.0  # tokens of the reply to a request that says nothing


def new_queue(timeout_s: float = 60.0) -> RequestQueue:
    """An empty queue, in which replies are as long as their limit."""
    return RequestQueue(timeout_s, lambda request: float(request.max_output_tokens or EACH))


def filled(timeout_s: float = 60.0, **arrivals: float) -> RequestQueue:
    """A queue of these requests with their times of arrival."""
    queue = new_queue(timeout_s)
    for name, arrived_at in arrivals.items():
        queue.append(Waiting(ask(name), arrived_at))
    return queue


def names(waiting: RequestQueue | list[Waiting]) -> list[str]:
    """The requests, in order."""
    return [one.request.id for one in waiting]


def come(
    queue: RequestQueue, client: str, count: int = 1, at: float = 0.0, work: int = 100, run: str | None = None
) -> None:
    """So many requests of a client, named after it and numbered on."""
    first = sum(one.request.client == client for one in queue)
    for number in range(first, first + count):
        queue.append(Waiting(ask(f"{client}{number}", prompt=0, limit=work, client=client, run=run), at))


def send_first(queue: RequestQueue, at: float = 0.0) -> Waiting:
    """The first in order goes out."""
    first, *rest = queue.in_order(at)
    queue.keep(list(rest), at)
    first.attempts += 1
    return first


def clients_sent(queue: RequestQueue, count: int, at: float = 0.0) -> str:
    """Whose requests go out, one after the other."""
    return "".join(send_first(queue, at).request.client for _ in range(count))


def test_what_comes_back_stands_first() -> None:
    """It was there before all others; that it waits is announced anew."""
    queue = filled(r1=0.0, r2=1.0)
    first = send_first(queue)
    first.is_announced = True
    queue.append(Waiting(ask("r3"), 2.0))
    queue.put_back(first)
    assert names(queue.in_order(2.0)) == ["r1", "r2", "r3"]
    assert not first.is_announced
    assert (ask("r2").id in queue, ask("r4").id in queue, len(queue)) == (True, False, 3)


def test_of_those_that_come_back_the_oldest_is_first() -> None:
    """In whatever order they failed, and whatever their clients got."""
    queue = new_queue()
    for at in (0.0, 1.0, 2.0):
        come(queue, "a", at=at)
    come(queue, "b", at=5.0)
    gone = [send_first(queue, 5.0) for _ in range(3)]
    for one in sorted(gone, key=lambda one: one.arrived_at, reverse=True):
        queue.put_back(one)
    assert names(queue.in_order(6.0)) == ["a0", "a1", "b0", "a2"]


def test_what_comes_back_is_not_charged_again() -> None:
    """Its client got nothing for the attempt that failed."""
    queue = new_queue()
    come(queue, "a", 3)
    come(queue, "b", 3)
    for _ in range(3):
        queue.put_back(send_first(queue))
    order = clients_sent(queue, 6)
    assert all({*order[place : place + 2]} == {*"ab"} for place in (0, 2, 4))


def test_a_request_leaves_by_name() -> None:
    """One that is not there does not matter."""
    queue = filled(r1=0.0, r2=1.0)
    queue.remove(ask("r1").id)
    queue.remove(ask("r1").id)
    assert names(queue) == ["r2"]
    queue.keep([], 1.0)
    assert len(queue) == 0


def test_each_request_waits_as_long_as_the_others_may() -> None:
    """Exactly until the next deadline that is told."""
    queue = filled(r1=0.0, r2=5.0)
    assert queue.next_deadline() == 60.0
    assert queue.take_overdue(59.9, lambda _: True) == []
    assert names(queue.take_overdue(60.0, lambda _: True)) == ["r1"]
    assert (names(queue), queue.next_deadline()) == (["r2"], 65.0)
    assert filled().next_deadline() is None


def test_a_model_that_is_nowhere_is_waited_for_ten_seconds() -> None:
    """From when it went; if it comes back in time, all patience is back."""
    queue = filled(r=0.0)
    queue.take_overdue(30.0, lambda _: False)
    assert queue.next_deadline() == 30.0 + NOWHERE_S
    queue.take_overdue(35.0, lambda _: True)
    assert queue.next_deadline() == 60.0
    queue.take_overdue(40.0, lambda _: False)
    assert queue.take_overdue(49.9, lambda _: False) == []
    assert names(queue.take_overdue(50.0, lambda _: False)) == ["r"]


def test_nothing_waits_in_a_queue_that_is_closed() -> None:
    """What is there is overdue, and so is whatever comes."""
    queue = filled(r1=0.0, r2=5.0)
    assert not queue.is_closed
    queue.close()
    assert queue.is_closed
    assert names(queue.take_overdue(5.0, lambda _: True)) == ["r1", "r2"]
    queue.append(Waiting(ask("r3"), 6.0))
    assert names(queue.take_overdue(6.0, lambda _: True)) == ["r3"]


def test_a_short_patience_is_not_lengthened() -> None:
    """Where the rules allow less than ten seconds, they count for a model that is nowhere, too."""
    queue = filled(2.0, r=0.0)
    queue.take_overdue(0.0, lambda _: False)
    assert queue.next_deadline() == 2.0


def test_a_client_with_one_request_does_not_wait_for_another_with_many() -> None:
    """It comes next but one, and the many go on."""
    queue = new_queue()
    come(queue, "a", 200)
    assert clients_sent(queue, 20) == "a" * 20
    come(queue, "b", at=50.0)
    assert clients_sent(queue, 3, 50.0) in {"aba", "baa"}


def test_clients_take_turns_by_work() -> None:
    """Who asks for four times as much at once goes a quarter as often."""
    queue = new_queue()
    come(queue, "a", 10, work=400)
    come(queue, "b", 40, work=100)
    order = clients_sent(queue, 25)
    assert Counter(order) == {"a": 5, "b": 20}
    assert "aa" not in order


def test_runs_of_one_client_take_turns() -> None:
    """A name that a client gives is as good as another client."""
    queue = new_queue()
    come(queue, "a", 3, run="one")
    come(queue, "a", 3, run="two")
    order = [send_first(queue).request.run for _ in range(6)]
    assert all({*order[place : place + 2]} == {"one", "two"} for place in (0, 2, 4))


def test_who_was_away_saved_up_nothing() -> None:
    """It goes on beside the others, though it got less than they did."""
    queue = new_queue()
    come(queue, "a", 40)
    come(queue, "b")
    assert "b" in clients_sent(queue, 2)
    assert clients_sent(queue, 20) == "a" * 20
    come(queue, "b", 10)
    assert "bbb" not in clients_sent(queue, 10)


def test_who_leaves_the_queue_for_a_moment_is_still_charged() -> None:
    """Asking one by one gets nobody more than asking at once."""
    queue = new_queue()
    come(queue, "a", 20)
    came = ""
    for _ in range(20):
        if "b" not in {one.request.client for one in queue}:
            come(queue, "b", work=300)
        came += clients_sent(queue, 1)
    assert Counter(came) == {"a": 15, "b": 5}


def test_a_queue_that_was_empty_begins_anew() -> None:
    """Who got much while nobody else waited has no debt."""
    queue = new_queue()
    come(queue, "a", 30)
    clients_sent(queue, 30)
    come(queue, "a", 2)
    come(queue, "b", 2)
    assert Counter(clients_sent(queue, 2)) == {"a": 1, "b": 1}


def test_the_longest_of_what_came_at_once_goes_first() -> None:
    """Where lengths were told, and differ much; what is equal, and what came later, keeps its order."""
    queue = new_queue()
    for name, limit, at in (
        ("r1", 100, 0.0),
        ("r2", 900, 0.1),
        ("r3", 100, 0.2),
        ("r4", 3000, 1.9),
        ("r5", 9000, 2.1),
    ):
        queue.append(Waiting(ask(name, limit=limit), at))
    assert names(queue.in_order(3.0)) == ["r4", "r2", "r1", "r3", "r5"]


def test_a_stream_is_no_burst() -> None:
    """Requests a second apart are not all at once with the first, so that a short one has its turn."""
    queue = new_queue()
    queue.append(Waiting(ask("short", limit=100), 0.0))
    for number in range(1, 9):
        queue.append(Waiting(ask(f"r{number}", limit=3000), float(number)))
    assert names(queue.in_order(9.0)).index("short") == 2


def test_nobody_is_passed_for_longer_than_ten_seconds() -> None:
    """Though ever new clients come, two a second, and one request goes a second."""
    queue = new_queue()
    come(queue, "old", 3)
    went: list[float] = []
    for second in range(40):
        at = float(second)
        come(queue, f"new {second}", 2, at + 0.5)
        if send_first(queue, at + 1.0).request.client == "old":
            went.append(at)
    assert went[0] == 0.0
    assert [later - earlier for earlier, later in pairwise(went)] == [PASSED_S + 1.0] * 2


def test_turns_of_clients_that_are_gone_are_forgotten_in_time() -> None:
    """As many are remembered as wait, and a thousand more."""
    queue = new_queue()
    come(queue, "a", 2, work=10**9)
    send_first(queue)
    for number in range(3 * MOST_CLIENTS):
        come(queue, f"b{number}")
        send_first(queue)
    assert len(queue._turns) <= MOST_CLIENTS + len(queue) + 1


@given(seed=st.integers(0, 2**32))
def test_what_two_clients_get_while_both_wait_differs_by_a_request_of_each(seed: int) -> None:
    """From any moment on, over any time, whoever comes and goes: the bound of start-time fair queueing."""
    random, queue, most = Random(seed), new_queue(), 800
    got: dict[tuple[str, str], float] = {}  # by how much the first got more, since both wait
    for _ in range(150):
        client = random.choice("abcd")
        if random.random() < 0.6 and len(queue) < 40:
            come(queue, client, work=random.choice([50, 100, most]))
        elif len(queue):
            first = send_first(queue)
            for pair in got:
                if first.request.client in pair:
                    sign = 1 if first.request.client == pair[0] else -1
                    got[pair] += sign * first.work
        waiting = {one.request.client for one in queue}
        got = {pair: got.get(pair, 0.0) for pair in combinations(sorted(waiting), 2)}
        assert all(abs(difference) <= 2 * most for difference in got.values())


@given(seed=st.integers(0, 2**32))
def test_a_new_client_waits_for_one_request_of_each_other(seed: int) -> None:
    """However many of them they have, and whatever they got."""
    random, queue = Random(seed), new_queue()
    others = "abcde"[: random.randint(1, 5)]
    for _ in range(60):
        if random.random() < 0.7 or len(queue) < 2:
            come(queue, random.choice(others), work=random.choice([50, 100, 800]))
        else:
            send_first(queue)
    come(queue, "new", work=400)
    before = Counter[str]()
    while (first := send_first(queue).request.client) != "new":
        before[first] += 1
        come(queue, random.choice(others), work=100)
    assert all(count == 1 for count in before.values())


def test_how_many_stand_before_is_told_as_it_is() -> None:
    """In a conversation: of a client with three requests, two go after the only one of another."""
    told = Told()
    told.arrives(ask("a0", client="a"))
    assert [queued(told.arrives(ask(f"a{number}", client="a"))) for number in (1, 2, 3)] == [
        [("a1", 0)], [("a2", 1)], [("a3", 2)],
    ]  # fmt: skip
    assert queued(told.arrives(ask("b0", client="b"))) == [("b0", 1)]
    order = ["a0"]
    while len(order) < 5:
        ((name, _),) = sent(told.finishes(order[-1]))
        order.append(name)
    assert order == ["a0", "a1", "b0", "a2", "a3"]
