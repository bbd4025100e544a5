from dataclasses import replace

import pytest

from pairproxy.core.gates import REMEMBERED_RUNNERS, Runners, fits
from pairproxy.core.models import Replica, Request
from tests.core.told import A, B, M, ask, at

REPLICA = Replica(M, "sha256:1", 4096, capabilities=frozenset({"completion", "tools"}))


def to(path: str, **facts: object) -> Request:
    """A request of 100 prompt and 100 output tokens to a path."""
    return replace(ask("r"), path=path, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "kind", "does"),
    [
        ("/v1/chat/completions", "openai", True),
        ("/v1/chat/completions", "ollama", True),
        ("/api/chat", "ollama", True),
        ("/api/chat", "embedded", True),
        ("/api/chat", "openai", False),
        ("/api/chat", "lmstudio", False),
        ("/api/v1/chat", "lmstudio", True),
        ("/api/v1/chat", "ollama", False),
        ("/v1/chat/completions", "of another age", False),
    ],
)
def test_an_engine_serves_the_paths_of_its_kind(path: str, kind: str, does: bool) -> None:
    """OpenAI's API is spoken by all, the others by those that have them."""
    assert fits(to(path), kind, "", REPLICA) is does


@pytest.mark.parametrize(
    ("path", "version", "does"),
    [
        ("/v1/responses", "0.13.2", False),
        ("/v1/responses", "0.13.3", True),
        ("/v1/messages", "0.13.9", False),
        ("/v1/messages", "0.14.0-rc2", True),
        ("/v1/messages", "v0.14", True),
        ("/v1/messages", "0.9.99", False),
        ("/v1/messages", "1.0.0", True),
        ("/v1/messages", "0.0.0", True),
        ("/v1/messages", "", True),
        ("/v1/messages", "nightly", True),
        ("/v1/messages", "9" * 5000 + ".1", True),  # a peer's word: Python would not read such a number
        ("/v1/messages", "1." + "9" * 5000, True),
        ("/v1/chat/completions", "0.1.0", True),
    ],
)
def test_an_old_ollama_lacks_the_newer_paths(path: str, version: str, does: bool) -> None:
    """Numbers are compared as numbers; a version that says nothing bars nothing."""
    assert fits(to(path), "ollama", version, REPLICA) is does


@pytest.mark.parametrize(
    ("coding", "kinds"),
    [("", "ollama lmstudio openai"), ("zstd", "ollama"), ("gzip", "lmstudio"), ("br", "")],
)
def test_an_encoded_body_goes_to_engines_that_read_it(coding: str, kinds: str) -> None:
    """Ollama reads zstd, LM Studio gzip; any other coding is between the client and the called engine."""
    request = to("/v1/chat/completions", coding=coding)
    can = [kind for kind in ("ollama", "lmstudio", "openai") if fits(request, kind, "", REPLICA)]
    assert can == kinds.split()


def test_only_ollama_is_judged_by_its_version() -> None:
    """Other engines count in other ways."""
    assert fits(to("/v1/messages"), "llamacpp", "0.1.0", REPLICA)


def test_what_a_request_takes_the_replica_must_have() -> None:
    """Unknown capabilities bar nothing, and engines embed with any model."""
    path = "/v1/chat/completions"
    assert fits(to(path, needs=frozenset({"tools"})), "ollama", "", REPLICA)
    assert not fits(to(path, needs=frozenset({"tools", "vision"})), "ollama", "", REPLICA)
    unknown = replace(REPLICA, capabilities=None)
    assert fits(to(path, needs=frozenset({"vision"})), "ollama", "", unknown)
    assert fits(to("/v1/embeddings", needs=frozenset({"embedding"})), "ollama", "", REPLICA)


@pytest.mark.parametrize(("window", "does"), [(None, True), (199, False), (200, True)])
def test_prompt_and_reply_must_fit_into_the_window(window: int | None, does: bool) -> None:
    """An engine with a smaller one would cut the prompt in silence."""
    assert fits(ask("r"), "ollama", "", replace(REPLICA, context_tokens=window)) is does


def test_a_window_as_wide_as_the_called_engines_does() -> None:
    """Clients ask for more output than they take; another node must only do no worse."""
    narrow = replace(REPLICA, context_tokens=150)
    assert fits(ask("r"), "ollama", "", narrow, enough_tokens=150)
    assert not fits(ask("r"), "ollama", "", narrow, enough_tokens=151)


def test_a_window_that_is_asked_for_is_given() -> None:
    """By an engine that loads the model anew for it; by no other."""
    request, narrow = to("/v1/chat/completions", context_tokens=9000), replace(REPLICA, context_tokens=150)
    assert fits(request, "ollama", "", narrow)
    assert not fits(request, "llamacpp", "", narrow)


def test_an_alias_serves_what_can_be_renamed() -> None:
    """A form has the name between its files, a compressed body within: it is not looked for there."""
    alias = replace(REPLICA, called="org/M", capabilities=None)
    assert fits(to("/v1/chat/completions"), "openai", "", alias)
    assert not fits(to("/v1/audio/transcriptions"), "openai", "", alias)
    assert fits(to("/v1/audio/transcriptions"), "openai", "", replace(alias, called=None))
    assert not fits(to("/v1/chat/completions", coding="zstd"), "ollama", "", alias)
    assert fits(to("/v1/chat/completions", coding="zstd"), "ollama", "", replace(alias, called=None))


def test_another_window_than_the_loaded_one_is_a_reload() -> None:
    """Only where the request names it, and only on engines that do so."""
    runners, wide = Runners(), to("/api/chat", context_tokens=8192, runner="num_ctx=8192")
    assert runners.has_to_reload(wide, at(A), "ollama", REPLICA)
    assert not runners.has_to_reload(wide, at(A), "ollama", replace(REPLICA, context_tokens=8192))
    assert not runners.has_to_reload(wide, at(A), "ollama", replace(REPLICA, context_tokens=None))
    assert not runners.has_to_reload(to("/api/chat"), at(A), "ollama", REPLICA)
    assert not runners.has_to_reload(wide, at(A), "llamacpp", REPLICA)


def test_what_was_sent_last_is_what_is_loaded() -> None:
    """Any of the runner's options counts, at each place apart, and no options are options too."""
    runners, wide = Runners(), to("/api/chat", context_tokens=8192, runner="num_ctx=8192")
    runners.sent(at(A), wide)
    assert not runners.has_to_reload(wide, at(A), "ollama", REPLICA)
    assert runners.has_to_reload(to("/api/chat"), at(A), "ollama", REPLICA)
    assert runners.has_to_reload(to("/api/chat", runner="num_gpu=1"), at(A), "ollama", REPLICA)
    assert runners.has_to_reload(wide, at(B), "ollama", REPLICA)


def test_a_reload_throws_out_what_was_asked_for() -> None:
    """Not what is asked for again, and not what others asked for, of which nothing is known here."""
    runners, wide = Runners(), to("/api/chat", context_tokens=8192, runner="num_ctx=8192")
    runners.sent(at(A), wide)
    assert runners.evicts(to("/api/chat"), at(A))
    assert not runners.evicts(wide, at(A))
    assert not runners.evicts(to("/api/chat"), at(B))


def test_the_memory_of_runners_is_bounded() -> None:
    """The oldest is forgotten."""
    runners = Runners()
    for number in range(REMEMBERED_RUNNERS + 1):
        runners.sent(at(A), replace(ask("r"), model=f"m{number}", runner="x"))  # type: ignore[arg-type]
    assert not runners.has_to_reload(replace(ask("r"), model="m0"), at(A), "ollama", REPLICA)  # type: ignore[arg-type]
    assert runners.has_to_reload(replace(ask("r"), model="m1"), at(A), "ollama", REPLICA)  # type: ignore[arg-type]
