"""Copying as two daemons do it: who may, what is refused and how, and what a cut leaves."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.replicating.conftest import Pair, two_daemons
from tests.support.asking import Asker
from tests.support.command import environment, here, sentence
from tests.support.daemons import until


@pytest.mark.slow
def test_a_wish_needs_the_owners_word_and_then_comes_true(pair: Pair) -> None:
    """Refused with the command that allows it; then the model is there, the same, and serves a request."""
    pair.at_a.add("m:1", b"w" * 3_000_000, b"template")
    refused = here("replicate", "m:1", "--to", "B", "--home", pair.a.home)
    assert refused.returncode == 1
    assert "On B, `pairproxy rights A --may-add-models` allows it" in sentence(refused)
    assert pair.at_b.pulls == []
    pair.allow()
    done = here("replicate", "m:1", "--to", "B", "--home", pair.a.home)
    assert (done.returncode, done.stdout) == (0, "B has m:1 now (3.0 MB, every part checked).\n")
    assert pair.at_b.manifest("m:1").read_bytes() == pair.at_a.manifest("m:1").read_bytes()
    assert (sorted(pair.at_b.names()), pair.at_b.leftovers()) == (["m:1", "own:1"], [])
    again = here("replicate", "m:1", "--to", "B", "--home", pair.a.home)
    assert again.stdout == "B has m:1 already, with the same content.\n"

    def is_replica() -> bool:
        engines = pair.a.view_of(pair.b).engines
        return any(one.model == "m:1" for engine in engines for one in engine.replicas)

    until(is_replica, "A sees the second replica")
    got = Asker(pair.b.port, "m:1").request("POST", "/api/chat", {"model": "m:1", "stream": False})
    assert (got.status, got.json()["message"]["content"]) == (200, "hello")


def test_the_owner_of_a_machine_fetches_without_a_right(pair: Pair) -> None:
    """--from: nobody else is asked, for what A may use of B it could copy by hand as well."""
    lines = here("replicate", "own:1", "--from", "B", "--home", pair.a.home, "--json").stdout.splitlines()
    last = json.loads(lines[-1])
    assert (last["state"], last["model"], last["peer"], last["is_to_here"]) == ("done", "own:1", "B", True)
    assert "own:1" in pair.at_a.names()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nope:1", "--to", "B"), "No Ollama on this machine has such a model"),
        (("nope:1", "--from", "B"), "B: No Ollama on B has such a model"),
        (("../../etc/passwd", "--to", "B"), "That is no name of a model of Ollama"),
        (("gpt-oss:120b-cloud", "--to", "B"), "not those of a cloud"),
        (("m:1", "--to", "C"), "No paired machine is called 'C'"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(pair: Pair, arguments: tuple[str, ...], why: str) -> None:
    """And nothing happened anywhere."""
    before = (pair.at_a.names(), pair.at_b.names())
    failed = here("replicate", *arguments, "--home", pair.a.home)
    assert failed.returncode == 1
    assert why in sentence(failed)
    assert (pair.at_a.names(), pair.at_b.names()) == before


def test_a_model_that_b_may_not_use_is_not_read_by_b(pair: Pair) -> None:
    """A's owner shares some models with B only; B cannot fetch another one."""
    pair.at_a.add("secret:1", b"secret")
    assert here("rights", "B", "--model", "first*", "--home", pair.a.home).returncode == 0
    try:
        refused = here("replicate", "secret:1", "--from", "A", "--home", pair.b.home)
        assert "A: No Ollama on A has such a model" in sentence(refused)
        assert "secret:1" not in pair.at_b.names()
    finally:
        here("rights", "B", "--all-models", "--home", pair.a.home)


def test_who_may_not_be_used_is_named_with_the_right_that_is_missing(pair: Pair) -> None:
    """Each of the four rights that a copy needs, from where its owner can give it."""
    pair.allow()
    for flag, home, why in (
        (
            "--may-not-use-me",
            pair.a.home,
            "B: A does not let B use it. On A, `pairproxy rights` gives that right.",
        ),
        ("--i-may-not-use", pair.a.home, "This machine does not use that one."),
    ):
        assert here("rights", "B", flag, "--home", home).returncode == 0
        try:
            assert why in sentence(here("replicate", "first:1", "--to", "B", "--home", pair.a.home))
        finally:
            here("rights", "B", "--may-use-me", "--i-may-use", "--home", pair.a.home)
    for flag, why in (
        ("--i-may-not-use", "B: B does not use yours."),
        ("--may-not-use-me", "B does not let this machine use it."),
    ):
        assert here("rights", "A", flag, "--home", pair.b.home).returncode == 0
        try:
            assert why in sentence(here("replicate", "first:1", "--to", "B", "--home", pair.a.home))
        finally:
            here("rights", "A", "--may-use-me", "--i-may-use", "--home", pair.b.home)
    assert "first:1" not in pair.at_b.names()


def begun(pair: Pair, *arguments: str) -> "subprocess.Popen[str]":
    """A copy in a process of its own, which has begun to come."""
    pair.at_a.add("big:1", 20_000_000)
    command = [sys.executable, "-m", "pairproxy", "replicate", "big:1", "--json", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        assert told["state"] != "failed", told
        if told["done_bytes"] > 0:
            return process
    raise AssertionError(process.communicate())


def to_b(pair: Pair) -> "subprocess.Popen[str]":
    """Slowly: 20 MB in ten seconds."""
    return begun(pair, "--to", "B", "--limit", "2", "--home", str(pair.a.home))


@pytest.mark.slow
@pytest.mark.parametrize("end", ["interrupt", "kill", "right", "use"])
def test_a_copy_that_ends_early_leaves_no_model_and_goes_on(tmp_path: Path, end: str) -> None:
    """By Ctrl-C, by its command's death, by its right being taken away: B stops at once; then it goes on."""
    ends: dict[str, Callable[[Pair, subprocess.Popen[str]], object]] = {
        "interrupt": lambda pair, process: process.send_signal(2),
        "kill": lambda pair, process: process.kill(),
        "right": lambda pair, process: pair.allow(False),
        "use": lambda pair, process: here("rights", "A", "--may-not-use-me", "--home", pair.b.home),
    }
    with two_daemons(tmp_path) as pair:
        pair.allow()
        process = to_b(pair)
        second = here("replicate", "first:1", "--to", "B", "--home", pair.a.home)
        assert "B: Another model is being copied to B." in sentence(second)
        ends[end](pair, process)
        _, err = process.communicate(timeout=40)
        assert process.returncode == {"interrupt": 130, "kill": -9}.get(end, 1), err
        assert pair.at_b.names() == ["own:1"]
        here("rights", "A", "--may-use-me", "--may-add-models", "--home", pair.b.home)

        def is_done() -> bool:
            return here("replicate", "big:1", "--to", "B", "--home", pair.a.home).returncode == 0

        until(is_done, "it goes on once the first copy is put away")
        assert sorted(pair.at_b.names()) == ["big:1", "own:1"]
        assert pair.at_b.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("who", ["A", "B"])
def test_a_daemon_that_is_killed_in_the_middle_comes_back_and_the_copy_goes_on(
    tmp_path: Path, who: str
) -> None:
    """The holder's daemon ends its command; the receiver's is waited for, and its Ollama keeps what came."""
    with two_daemons(tmp_path) as pair:
        pair.allow()
        process = to_b(pair)
        node = pair.a if who == "A" else pair.b
        node.kill()
        pair.daemons.start(who)
        _, err = process.communicate(timeout=60)
        if who == "A":
            assert process.returncode == 1
            assert "goes on where it stopped" in err
            done = until(
                lambda: (
                    here("replicate", "big:1", "--to", "B", "--home", pair.a.home).returncode == 0 or None
                ),
                "the copy is done by a second command",
            )
            assert done
        else:
            assert process.returncode == 0, err
        assert sorted(pair.at_b.names()) == ["big:1", "own:1"]
        assert pair.at_b.leftovers() == []


@pytest.mark.slow
def test_a_large_model_comes_whole_and_its_progress_adds_up(tmp_path: Path) -> None:
    """200 MB in one sparse file, as fast as it goes."""
    with two_daemons(tmp_path) as pair:
        pair.allow()
        pair.at_a.add("large:1", 200_000_000)
        done = here("replicate", "large:1", "--to", "B", "--home", pair.a.home, "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[-1]["state"] == "done"
        numbers = [line["done_bytes"] for line in lines]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 200_000_002
        assert pair.at_b.blob(largest(pair)).stat().st_size == 200_000_000


def largest(pair: Pair) -> str:
    """The digest of the weights."""
    found: str = json.loads(pair.at_a.manifest("large:1").read_bytes())["layers"][0]["digest"]
    return found
