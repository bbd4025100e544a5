import json
from pathlib import Path

import pytest

from pairproxy.cli.trusting import store_of
from pairproxy.security.identity import Identity, load_or_create
from tests.cli.test_trusting import befriend
from tests.support.command import here, sentence
from tests.support.daemons import Daemons, settings, until


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """A machine."""
    return load_or_create(tmp_path / "ben")


def test_a_peer_is_forgotten_without_a_daemon(home: Path, ben: Identity) -> None:
    """F41: its file is gone, and it is remembered as one that was forgotten."""
    befriend(home, ben, "ben-ws")
    done = here("forget", "ben-ws", "--home", home)
    assert done.returncode == 0
    assert done.stdout.startswith('Forgot "ben-ws"')
    assert "No daemon runs here" in done.stdout
    store = store_of(home)
    assert store is not None
    assert (store.peers(), [one.name for one in store.forgotten()]) == ((), ["ben-ws"])
    done = here("forget", "ben-ws", "--home", home)
    assert (done.returncode, "No machine is paired" in sentence(done)) == (1, True)


def test_it_says_what_it_did_as_json(home: Path, ben: Identity) -> None:
    """One document."""
    befriend(home, ben, "ben-ws")
    told = json.loads(here("forget", ben.device_id[:8], "--home", home, "--json").stdout)
    assert told == {"name": "ben-ws", "node": ben.device_id, "has_daemon": False}


def test_nobody_is_forgotten_by_a_word_that_means_nobody(home: Path, ben: Identity) -> None:
    """Exit status 1, and who there is."""
    befriend(home, ben, "ben-ws")
    done = here("forget", "bob", "--home", home)
    assert (done.returncode, '"ben-ws"' in sentence(done)) == (1, True)
    store = store_of(home)
    assert store is not None
    assert len(store.peers()) == 1


@pytest.mark.slow  # its halves are in tests/test_peering_revoking.py and tests/peers/test_link.py
def test_two_daemons_part_at_once_and_both_say_so(tmp_path: Path) -> None:
    """F3, F41: the one that forgot knows the other no more; the other shows why, and what to do."""
    with Daemons(tmp_path) as daemons:
        daemons.home("A", settings())
        daemons.home("B", settings())
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        done = here("forget", "B", "--home", a.home)
        assert "It is cut off." in done.stdout
        assert [node.name for node in a.status().nodes] == ["A"]
        until(lambda: not b.view_of(a).is_up, "B notices")
        problem = until(lambda: b.view_of(a).problem, "B knows why")
        assert problem == "it no longer trusts this machine; pair the two again to use it"
        shown = " ".join(here("peers", "--home", b.home).stdout.split())
        assert "): it no longer trusts this machine" in shown
        daemons.pair("A", "B")
        here("rights", "B", "--home", a.home)  # tells the daemon, as any command about peers does
        here("rights", "A", "--home", b.home)
        daemons.until_connected()
