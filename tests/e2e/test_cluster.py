"""Several real daemons on loopback: they find each other, share work, and lose nobody's request."""

import contextlib
import signal
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairproxy.api.schema import Record
from pairproxy.core.errors import PairproxyError
from pairproxy.core.models import NodeId
from pairproxy.security.identity import load_or_create
from pairproxy.security.tls import client_context
from pairproxy.security.trust import TrustStore
from tests.support.asking import Asker, Got
from tests.support.daemons import Daemons, Node, settings, until

PROMPT = " ".join(f"word{number}" for number in range(100))


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """No daemon yet; those that a test starts are stopped and looked at after it."""
    with Daemons(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """Three equal nodes of one slot each, paired and connected."""
    with Daemons(tmp_path_factory.mktemp("trio")) as daemons:
        for name in "ABC":
            daemons.home(name, settings(paced={"decode": 100.0}))
        daemons.pair(*"ABC")
        nodes = daemons.start(*"ABC")
        daemons.until_connected()
        yield nodes


def pair_of(daemons: Daemons, a: str, b: str) -> list[Node]:
    """Two connected nodes with these settings."""
    daemons.home("A", a)
    daemons.home("B", b)
    daemons.pair("A", "B")
    nodes = daemons.start("A", "B")
    daemons.until_connected()
    return nodes


def records_of(node: Node, run: str, count: int) -> list[Record]:
    """The records of a run in the order of their dispatch, once there are ``count``."""
    records = until(lambda: _records(node, run, count), f"{count} records of {run}")
    return sorted(records, key=lambda record: record.dispatched_s or 0.0)


def _records(node: Node, run: str, count: int) -> list[Record] | None:
    records = node.report(run).records
    return list(records) if len(records) == count else None


def runs_on(origin: Node, node: Node) -> bool:
    """Whether a request of ``origin`` runs on ``node`` and nothing of its reply is there yet."""
    return any(one.node == node.id and not one.has_first_byte for one in origin.status().running)


def at_once(node: Node, run: str, count: int, **more: object) -> list[Got]:
    """Ask ``count`` times at once and wait for the replies."""
    asker = Asker(node.port, headers={"X-Pairproxy-Run": run})
    replies = [asker.start(f"task {number}", **more) for number in range(count)]
    return [reply.result() for reply in replies]


def test_nodes_find_each_other_by_mdns(trio: list[Node]) -> None:
    """Each of three nodes sees the two others, found by mDNS, at their peer ports."""
    for node in trio:
        for other in trio:
            if other is not node:
                seen = node.view_of(other)
                assert (seen.is_up, seen.found_by, seen.problem) == (True, "mdns", None)
                assert seen.address == f"127.0.0.1:{other.file.peer_port}"


def test_five_requests_on_three_equal_nodes_run_as_two_waves(trio: list[Node]) -> None:
    """The first three start at once, one on each node; the others when a slot comes free, in their order."""
    replies = at_once(trio[0], "waves", 5, tokens=150)
    assert [(reply.status, reply.is_whole, len(reply.lines())) for reply in replies] == [(200, True, 151)] * 5
    records = records_of(trio[0], "waves", 5)
    first, second = records[:3], records[3:]
    assert {record.node for record in first} == {node.id for node in trio}
    assert max(record.arrived_s for record in first) <= min(record.arrived_s for record in second)
    assert [record.arrived_s for record in second] == sorted(record.arrived_s for record in second)
    ends = sorted((record.ended_s, record.node) for record in first)
    assert all(record.dispatched_s is not None and record.dispatched_s < ends[0][0] for record in first)
    assert [record.node for record in second] == [node for _, node in ends[:2]]
    assert all(
        (late.dispatched_s or 0.0) >= ended_s for late, (ended_s, _) in zip(second, ends, strict=False)
    )
    assert all(record.outcome == "done" and record.attempts == 1 for record in records)
    report = trio[0].report("waves").run
    assert report is not None
    assert (report.requests, report.slots) == (5, 3)
    assert report.bound_waves == pytest.approx(2.5)
    print(f"five requests of 1.5 s on three nodes: {report.makespan_s:.2f} s; two waves are 3 s")  # noqa: T201


def test_an_idle_cluster_has_nothing_in_flight(trio: list[Node]) -> None:
    """After a run every node counts zero requests in flight, in the queue and running."""
    at_once(trio[1], "idle", 4, tokens=8)
    for node in trio:
        until(lambda node=node: _is_idle(node), f"{node.name} is idle")  # type: ignore[misc]


def _is_idle(node: Node) -> bool:
    status = node.status()
    in_flight = sum(engine.in_flight for one in status.nodes for engine in one.engines)
    return not status.running and not status.queue_length and not in_flight


def test_a_request_marked_local_stays_on_its_node(trio: list[Node]) -> None:
    """X-Pairproxy-Local keeps requests here, one after the other, while two other nodes are idle."""
    asker = Asker(trio[0].port, headers={"X-Pairproxy-Local": "true"})
    replies = [reply.result() for reply in [asker.start(f"local {number}", tokens=8) for number in range(3)]]
    assert [reply.node for reply in replies] == [trio[0].id] * 3


def test_a_run_has_its_own_report(trio: list[Node]) -> None:
    """A run is found by its name, also one with spaces in it; a name that was never used is an error."""
    at_once(trio[2], "night job & more", 2, tokens=8)
    at_once(trio[2], "other", 1, tokens=8)
    records = records_of(trio[2], "night job & more", 2)
    assert [record.output_tokens for record in records] == [8, 8]
    with pytest.raises(PairproxyError, match="no run of this name"):
        trio[2].report("never")


def test_a_node_killed_before_its_first_byte_loses_no_request(daemons: Daemons) -> None:
    """Its request is answered by another node, and its client does not notice."""
    a, b = pair_of(daemons, *[settings(paced={"prefill": 200.0})] * 2)
    asker = Asker(a.port, headers={"X-Pairproxy-Run": "kill"})
    replies = [asker.start(f"{number} {PROMPT}", tokens=8) for number in range(2)]
    until(lambda: runs_on(a, b), "a request runs on B")
    b.kill()
    got = [reply.result() for reply in replies]
    assert [(reply.status, reply.is_whole, reply.node) for reply in got] == [(200, True, a.id)] * 2
    assert sorted(reply.attempts for reply in got) == [1, 2]
    assert all(reply.lines()[-1]["done"] for reply in got)
    assert [record.outcome for record in records_of(a, "kill", 2)] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_lost_in_mid_stream_ends_its_reply_honestly(daemons: Daemons, number: signal.Signals) -> None:
    """Killed or silent: the client gets the text so far and an error line, and no end that looks whole."""
    limits, peers = {"node_lost_s": 1.0, "node_stale_s": 0.75}, {"state_interval_s": 0.25}
    a, b = pair_of(daemons, *[settings(paced={"decode": 50.0}, limits=limits, peers=peers)] * 2)
    asker = Asker(a.port)
    replies = [asker.start(f"{number}", tokens=75) for number in range(2)]
    until(lambda: sum(one.has_first_byte for one in a.status().running) == 2, "both reply")
    b.is_expected_to_fail = True
    b.send(number)
    got = {reply.result().node: reply.result() for reply in replies}
    assert got[a.id].is_whole
    broken = got[b.id]
    assert not broken.is_whole
    assert broken.seconds < got[a.id].seconds + 1.0
    *text, last = broken.lines()
    assert text
    assert all(not line["done"] for line in text)
    assert set(last) == {"error"}
    until(lambda: _is_idle(a), "A is idle")


@pytest.mark.slow
def test_a_silent_node_is_noticed_and_comes_back(daemons: Daemons) -> None:
    """A stopped process counts as gone within 6 s, its request goes elsewhere; later it is used again."""
    a, b = pair_of(daemons, *[settings(paced={"prefill": 200.0})] * 2)
    asker = Asker(a.port)
    replies = [asker.start(f"{number} {PROMPT}", tokens=8) for number in range(2)]
    until(lambda: runs_on(a, b), "a request runs on B")
    b.send(signal.SIGSTOP)
    stopped_at = time.monotonic()
    until(lambda: not a.view_of(b).is_up, "A notices that B is silent")
    print(f"a silent node was noticed after {time.monotonic() - stopped_at:.1f} s")  # noqa: T201
    got = [reply.result() for reply in replies]
    assert [(reply.status, reply.is_whole, reply.node) for reply in got] == [(200, True, a.id)] * 2
    b.send(signal.SIGCONT)
    until(lambda: a.view_of(b).is_up, "B is back")
    until(lambda: b.id in {reply.node for reply in at_once(a, "again", 2)}, "B is used again")


@pytest.mark.slow
def test_a_killed_node_is_noticed_and_a_restarted_one_found_again(daemons: Daemons) -> None:
    """kill -9 says no goodbye; the node is gone all the same, and back on its new port after a restart."""
    a, b = pair_of(daemons, *[settings()] * 2)
    name, old_port = b.id, b.file.peer_port
    b.kill()
    until(lambda: not a.view_of(name).is_up, "A notices")
    assert a.view_of(name).problem
    (again,) = daemons.start("B")
    assert again.file.peer_port != old_port
    until(lambda: a.view_of(again).is_up, "A finds it again")
    assert a.view_of(again).address == f"127.0.0.1:{again.file.peer_port}"
    assert {reply.node for reply in at_once(a, "again", 2, tokens=60)} == {a.id, again.id}


def test_a_node_that_is_not_trusted_gets_nothing(daemons: Daemons) -> None:
    """A certificate that nobody here trusts opens nothing: no request, no state; it shows as unpaired."""
    a, b = pair_of(daemons, *[settings()] * 2)
    stranger_home = daemons.home("C", settings())
    stranger = load_or_create(stranger_home)
    own = TrustStore(stranger_home, stranger.device_id)
    own.load()
    records = TrustStore(b.home, NodeId(b.id))
    records.load()
    for record in records.peers():  # C believes A, as B does; A does not know C
        own.add(record)
    (c,) = daemons.start("C")
    until(lambda: c.view_of(a).problem, "C is turned away")
    assert not c.view_of(a).is_up
    until(lambda: c.id[:8] in a.status().unpaired, "A hears of C")
    assert {node.node for node in a.status().nodes} == {a.id, b.id}
    assert [reply.node for reply in at_once(c, "mine", 3, tokens=8)] == [c.id] * 3
    assert ask_as_peer(a, client_context(stranger, records.peers()[0].certificate)) == b""
    status = a.status()
    assert (status.requests_done, status.running) == (0, ())


def ask_as_peer(node: Node, context: ssl.SSLContext) -> bytes:
    """Send a chat to the peer port; returns what comes back, nothing if the connection is refused."""
    body = b'{"model":"paced:1b","messages":[{"role":"user","content":"hi"}]}'
    head = f"POST /api/chat HTTP/1.1\r\nHost: pairproxy\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert node.file.peer_port is not None
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection(("127.0.0.1", node.file.peer_port), timeout=5.0) as plain,
        context.wrap_socket(plain) as connection,
    ):
        connection.sendall(head + body)
        return connection.recv(1024)  # TLS 1.3: a client hears with its first read that it was rejected
    return b""


@pytest.mark.slow
def test_local_only_uses_no_other_node(daemons: Daemons) -> None:
    """Under the policy local-only every request waits for this node, however idle the others are."""
    a, _ = pair_of(daemons, settings(routing={"policy": "local-only"}), settings())
    assert [reply.node for reply in at_once(a, "local", 3, tokens=16)] == [a.id] * 3


@pytest.mark.parametrize(
    ("policy", "slow"), [("fastest-finish", 0), pytest.param("least-busy", 1, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_unequal_nodes(daemons: Daemons, policy: str, slow: int) -> None:
    """Six times 0.1 s are done sooner than once 0.8 s: counting sends one to the slow node, seconds none."""
    a, b = pair_of(
        daemons,
        settings(paced={"decode": 400.0}, routing={"policy": policy}),
        settings(paced={"decode": 50.0, "prefill": 2500.0}),
    )
    at_once(a, policy, 6, tokens=40)
    records = records_of(a, policy, 6)
    report = a.report(policy).run
    assert report is not None
    print(f"{policy}: {report.makespan_s:.2f} s")  # noqa: T201
    served = Counter(record.node for record in records)
    assert (served[a.id], served[b.id]) == (6 - slow, slow)
