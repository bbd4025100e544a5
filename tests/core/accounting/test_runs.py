from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.ledger import RequestRecord
from pairproxy.core.accounting.open_requests import OpenRequest
from pairproxy.core.accounting.runs import (
    IDLE_GAP_S,
    Group,
    Run,
    current_of,
    group_all,
    group_runs,
    is_id,
    known_as,
    recent,
)
from tests.core.accounting.conversation import B, asked, served


def ids(runs: tuple[Run, ...]) -> list[list[str]]:
    """Which requests are in which run."""
    return [[record.id for record in run.records] for run in runs]


def test_a_burst_is_one_run() -> None:
    """Requests of one client that overlap belong together; the makespan is last end minus first arrival."""
    (run,) = group_runs([served("late", 2.0, 6.0, 9.0), served("early", 1.0, 1.0, 6.0)])
    assert (run.id, run.name) == ("early", None)
    assert (run.started_at, run.ended_at, run.makespan_s) == (1.0, 9.0, 8.0)
    assert not run.is_chain


def test_a_pause_longer_than_the_gap_begins_a_new_run() -> None:
    """Up to the idle gap the client is thinking; beyond it, this is something else."""
    first, second = served("x", 0.0, 0.0, 2.0), served("y", 2.0 + IDLE_GAP_S, 7.0, 9.0)
    third = served("z", 9.0 + IDLE_GAP_S + 0.1, 15.0, 16.0)
    assert ids(group_runs([first, second, third])) == [["x", "y"], ["z"]]
    assert ids(group_runs([first, second, third], idle_gap_s=1.0)) == [["x"], ["y"], ["z"]]


def test_a_long_request_holds_the_run_together() -> None:
    """What counts is that something of the client is in flight, not when the last one began."""
    records = [
        served("long", 0.0, 0.0, 60.0),
        served("short", 1.0, 1.0, 2.0),
        served("next", 62.0, 62.0, 63.0),
    ]
    assert ids(group_runs(records)) == [["long", "short", "next"]]


def test_a_time_before_zero_is_a_time_like_any_other() -> None:
    """A monotonic clock may start anywhere."""
    assert ids(group_runs([served("x", -50.0, -50.0, -49.0), served("y", -48.0, -48.0, -47.0)])) == [
        ["x", "y"]
    ]


def test_clients_are_apart_and_names_are_together() -> None:
    """Two clients at the same time are two runs, unless they say that they are one, whatever the pause."""
    records = [
        served("x", 0.0, 0.0, 1.0, client="one"),
        served("y", 0.0, 0.0, 2.0, client="two"),
        served("u", 0.0, 0.0, 3.0, client="one", run="job"),
        served("v", 60.0, 60.0, 61.0, client="two", run="job"),
    ]
    runs = group_runs(records)
    assert ids(runs) == [["x"], ["y"], ["u", "v"]]
    assert (runs[-1].id, runs[-1].name) == ("job", "job")


def test_a_long_tool_does_not_end_a_run() -> None:
    """The next step of a chain belongs to it, known by its prompt or its name; after a minute it does not."""
    first = served("x", 0.0, 0.0, 2.0, prefix=(1, 2))
    step = served("y", 40.0, 40.0, 41.0, prefix=(1, 2, 3))
    other = served("z", 40.0, 40.0, 41.0, prefix=(7, 8, 9))
    late = served("y", 70.0, 70.0, 71.0, prefix=(1, 2, 3))
    assert ids(group_runs([first, step])) == [["x", "y"]]
    assert ids(group_runs([first, other])) == [["x"], ["z"]]
    assert ids(group_runs([first, late])) == [["x"], ["y"]]
    named = [served(name, at, at, at + 1.0, chain="c") for name, at in (("x", 0.0), ("y", 30.0))]
    assert ids(group_runs(named)) == [["x", "y"]]


def test_a_name_that_comes_again_is_another_run() -> None:
    """A nightly job is a run each night, not one that lasts for weeks."""
    first, second = (
        served(name, at, at, at + 9.0, run="nightly") for name, at in (("x", 0.0), ("y", 86400.0))
    )
    runs = group_runs([first, second])
    assert ids(runs) == [["x"], ["y"]]
    assert [run.name for run in runs] == ["nightly", "nightly"]


def test_the_requests_of_peers_are_their_origin_s_to_report() -> None:
    """A request that came from a peer is in no run of this node."""
    assert group_runs([served("guest", 0.0, 0.0, 1.0, origin=B)]) == ()


def test_a_chain_is_recognised() -> None:
    """A run in which each request arrived after the one before had ended is a chain; one request is none."""
    steps = [served("x", 0.0, 0.0, 1.0), served("y", 1.0, 1.0, 3.0), served("z", 4.0, 4.0, 5.0)]
    assert group_runs(steps)[0].is_chain
    assert not group_runs(steps[:1])[0].is_chain


records = st.lists(
    st.builds(
        lambda name, arrived, wait, work, client, run: served(
            str(name), arrived, arrived + wait, arrived + wait + work, client=client, run=run
        ),
        st.integers(),
        st.floats(0.0, 60.0),
        st.floats(0.0, 5.0),
        st.floats(0.0, 20.0),
        st.sampled_from(["one", "two"]),
        st.sampled_from([None, None, "job"]),
    ),
    max_size=20,
)


@given(records)
def test_every_record_is_in_one_run(some: list[RequestRecord]) -> None:
    """Grouping loses nothing, doubles nothing, and runs of one client are further apart than the gap."""
    runs = group_runs(some)
    assert sorted(id(record) for run in runs for record in run.records) == sorted(map(id, some))
    assert [run.ended_at for run in runs] == sorted(run.ended_at for run in runs)
    for client in ("one", "two"):
        own = sorted(
            (run for run in runs if run.name is None and run.records[0].client == client),
            key=lambda run: run.started_at,
        )
        for before, after in pairwise(own):
            assert after.started_at - before.ended_at > IDLE_GAP_S


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 9000.0), st.floats(0.0, 200.0), st.sampled_from([None, None, "x", "y"]),
            st.sampled_from(["c", "d"]), st.booleans(), st.sampled_from(["", "", "chain"]),
        ),
        max_size=25,
    )
)  # fmt: skip
def test_what_is_recent_holds_the_last_run_and_all_that_go_on(
    made: list[tuple[float, float, str | None, str, bool, str]],
) -> None:
    """They are the same as if all were grouped."""
    records, opened = [], []
    for index, (at, took, run, client, is_open, chain) in enumerate(made):
        if is_open and index % 3 == 0:
            opened.append(OpenRequest(asked(f"r{index}", client=client, run=run, chain=chain), at))
        else:
            one = served(f"r{index}", at, at, at + took, client=client, run=run)
            records.append(replace(one, chain=chain))
    records.sort(key=lambda one: one.ended_at)

    def told(groups: tuple[Group, ...]) -> list[Group]:
        ends = [one.ended_at - IDLE_GAP_S for one in records[-1:]]
        last = [one.id for one in records if one.ended_at >= ends[0]]
        found = [one for one in groups if one.open or any(member.id in last for member in one.ended)]
        return sorted(found, key=lambda one: (one.id, one.started_at))

    assert told(group_all(recent(records, opened), opened)) == told(group_all(records, opened))


def test_a_day_of_single_requests_is_not_recent() -> None:
    """Nor what peers sent; what they have named may come again within the hour."""
    day = [served(f"r{one}", 100.0 * one, 100.0 * one, 100.0 * one + 5.0) for one in range(50)]
    guest = served("guest", 4990.0, 4990.0, 4991.0, origin=B)
    assert [one.id for one in recent([*day, guest], ())] == ["r49"]
    named = served("named", 3000.0, 3000.0, 3001.0, run="job")
    opened = OpenRequest(asked("more", run="job"), 5000.0)
    assert [one.id for one in recent([*day[:30], named, *day[30:]], [opened])] == ["named", "r49"]
    assert recent((), ()) == []


def test_what_was_one_run_is_one_though_what_joined_it_is_forgotten() -> None:
    """By the id it had; a named one, and one that nothing is known of, stay as they are."""
    records = [
        served("b", 20.0, 20.0, 21.0), served("d", 40.0, 40.0, 41.0), served("alone", 9.0, 9.0, 10.0),
        served("x", 0.0, 0.0, 1.0, run="job"),
    ]  # fmt: skip
    opened = OpenRequest(asked("e"), 40.5)
    groups = group_all(records, [opened])
    assert len(groups) == 4
    found = known_as(groups, {"b": "a", "d": "a", "x": "never"}.get)
    assert [(one.id, one.name, one.started_at) for one in found] == [
        ("job", "job", 0.0), ("alone", None, 9.0), ("a", None, 20.0)
    ]  # fmt: skip
    assert [[one.id for one in group.ended] for group in found] == [["x"], ["alone"], ["b", "d"]]
    assert [len(group.open) for group in found] == [0, 0, 1]
    assert known_as(groups, lambda _: None) == groups


def test_what_is_open_holds_a_run_together_and_gives_it_its_name() -> None:
    """The first request still runs, and short ones came and went: it is one run, by the id of the first."""
    opened = OpenRequest(asked("first"), 0.0)
    ended = [served("x", 1.0, 1.0, 2.0), served("y", 60.0, 60.0, 61.0)]
    (group,) = group_all(ended, [opened])
    assert (group.id, group.name, group.started_at) == ("first", None, 0.0)
    assert group.run == Run("first", None, tuple(ended))
    assert group.open == (opened,)
    assert ids(group_runs(ended)) == [["x"], ["y"]]
    (alone,) = group_all([], [opened])
    assert alone.run is None


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 200.0), st.floats(0.01, 80.0), st.sampled_from(["one", "two"]), st.booleans()
        ),
        min_size=1,
        max_size=12,
    ),
    st.floats(0.0, 300.0),
)
def test_a_run_keeps_its_id_from_its_first_request_to_its_end(
    requests: list[tuple[float, float, str, bool]], now: float
) -> None:
    """At any moment the requests that arrived are grouped as they will be when all has ended."""
    records = [
        served(
            f"r{number}", arrived, arrived, arrived + lasts, client=client, run="job" if is_named else None
        )
        for number, (arrived, lasts, client, is_named) in enumerate(requests)
    ]
    final = {one.id: run.id for run in group_runs(records) for one in run.records}
    opened = [
        OpenRequest(asked(one.id, client=one.client, run=one.run), one.arrived_at)
        for one in records
        if one.arrived_at <= now < one.ended_at
    ]
    ended = [one for one in records if one.ended_at <= now]
    groups = group_all(ended, opened)
    grouped = {one.id: group.id for group in groups for one in group.ended}
    grouped |= {one.id: group.id for group in groups for one in group.open}
    assert grouped == {name: final[name] for name in grouped}
    assert len(grouped) == len(ended) + len(opened)


def test_an_id_may_be_as_short_as_it_is_shown() -> None:
    """Of an unnamed run; a name is given whole, or it would be another one."""
    assert is_id("7a7a48dff6fc", None, "7a7a48df")
    assert is_id("7a7a48dff6fc", None, "7a7a48dff6fc")
    assert not is_id("7a7a48dff6fc", None, "7a7a48d")
    assert not is_id("nightly build", "nightly build", "nightly b")
    assert is_id("job", "job", "job")


def test_a_run_goes_on_between_the_steps_of_an_agent() -> None:
    """For as long as what follows would belong to it; a burst that has ended is over."""
    chain = [served("a", 0.0, 0.0, 3.0), served("b", 5.0, 5.0, 8.0)]
    (group,) = group_all(chain, ())
    assert group.is_loop
    assert current_of((group,), 8.0 + IDLE_GAP_S) == group
    assert current_of((group,), 8.1 + IDLE_GAP_S) is None
    (burst,) = group_all([served("a", 0.0, 0.0, 3.0), served("b", 0.1, 3.0, 6.0)], ())
    assert not burst.is_loop
    assert current_of((burst,), 6.0) is None
    assert current_of((), 6.0) is None
