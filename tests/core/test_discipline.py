from dataclasses import replace

from pairproxy.core.dialects.reading_outline import outline_of
from pairproxy.core.discipline import (
    BYTES_PER_TOKEN,
    MOST_CLIENTS,
    MOST_FINDINGS,
    REMEMBERED,
    Discipline,
)
from pairproxy.core.events import RequestArrived
from pairproxy.core.models import Request
from tests.core.told import A, M, Told, ask

RULES = "".join(f"Rule {number}: be brief and say what you did.\n" for number in range(150))
QUESTIONS = [f"Question {number}?\n" for number in range(20)]


def asked(system: str, user: str = "Why?\n", client: str = "anna") -> Request:
    """A request with this prompt."""
    parts = [("system prompt", system.encode()), ("message 2", user.encode())]
    return ask("r", client=client, outline=outline_of(parts))


def looked(*requests: Request) -> Discipline:
    """After these requests, in order."""
    discipline = Discipline()
    for request in requests:
        discipline.look(request)
    return discipline


def test_a_clock_in_the_system_prompt_is_found() -> None:
    """With its place and what it costs each time, in words without a word of the prompt."""
    begin = "You are the helper of a large company.\n"
    times = [f"{begin}It is 12:{minute}.\n{RULES}" for minute in range(10, 14)]
    (found,) = looked(*map(asked, times)).findings()
    assert (found.client, found.model, found.part, found.times) == ("anna", M, "system prompt", 3)
    assert found.character == len(begin)
    assert abs(found.lost_tokens - len(RULES) / BYTES_PER_TOKEN) < 10
    assert found.sentence == (
        "Requests from anna for m:latest differ in the line at character 39 of the system prompt, which "
        f"throws away {found.lost_tokens:,} cached tokens each time. Put what changes at the end."
    )


def test_a_part_of_the_conversation_is_named_as_it_is() -> None:
    """Messages have numbers."""
    prompts = [asked("Be kind.\n", f"It is 12:{minute}.\n{RULES}") for minute in range(10, 13)]
    (found,) = looked(*prompts).findings()
    assert "at character 0 of message 2, which" in found.sentence
    (found,) = looked(*(replace(one, client="") for one in prompts)).findings()
    assert found.sentence.startswith("Requests from one client for")


def test_prompts_that_begin_alike_are_in_order() -> None:
    """Other questions after the same rules, the next step of a chain, the same prompt again."""
    assert looked(*(asked(RULES, question) for question in QUESTIONS)).findings() == []
    assert looked(*(asked(RULES, "".join(QUESTIONS[:n])) for n in range(20))).findings() == []
    assert looked(*[asked(RULES)] * 5).findings() == []


def test_prompts_that_have_little_in_common_are_in_order() -> None:
    """Another agent with other rules, and small losses."""
    other = RULES.replace("Rule", "Law")
    assert looked(*[asked(RULES), asked(other)] * 5).findings() == []
    assert looked(*(asked(f"It is 12:{n}.\n" + RULES[:900]) for n in range(10, 20))).findings() == []


def test_a_client_may_have_several_prompts_by_turns() -> None:
    """Each is compared with the nearest of the last few, so that neither is blamed for the other."""
    agents = [
        RULES + f"You are agent {n}.\n" + RULES.replace("Rule", f"Law {n}") for n in range(REMEMBERED - 1)
    ]
    turns = [asked(system, question) for question in QUESTIONS for system in agents]
    assert looked(*turns).findings() == []


def test_a_prompt_that_comes_again_takes_nobodys_place() -> None:
    """However often it does: the others of its client are still known, so that neither is blamed."""
    times = [asked(f"It is 12:{minute}.\n{RULES}") for minute in range(10, 13)]
    often = [asked("Be kind.\n" + RULES)] * (2 * REMEMBERED)
    (found,) = looked(times[0], *often, times[1], *often, times[2]).findings()
    assert found.times == 3  # each minute, and the first of the others
    assert looked(times[0], *often, times[0], *often, times[0]).findings() == []


def test_once_is_not_a_habit() -> None:
    """A prompt may change, a short one says nothing, and clients are not compared with each other."""
    old, new = asked("Version 1.\n" + RULES), asked("Version 2.\n" + RULES)
    assert looked(old, new, new, new).findings() == []
    assert looked(ask("r"), ask("r"), ask("r")).findings() == []
    assert looked(old, replace(new, client="ben"), replace(old, client="carl")).findings() == []


def test_the_costliest_is_told_first_and_what_is_kept_has_an_end() -> None:
    """Of clients and of findings; those seen longest ago are forgotten."""
    small, large = RULES[:4000], RULES
    requests = [asked(f"It is 12:{n}.\n{text}", client=client) for n in range(10, 14)
                for text, client in ((small, "small"), (large, "large"))]  # fmt: skip
    assert [one.client for one in looked(*requests).findings()] == ["large", "small"]
    many = [
        asked(f"It is 12:{n}.\n{large}", client=f"c{c}") for c in range(MOST_FINDINGS + 1) for n in (1, 2, 3)
    ]
    discipline = looked(*many)
    kept = [one.client for one in discipline.findings()]
    assert len(kept) == MOST_FINDINGS
    assert "c0" not in kept
    for client in range(MOST_CLIENTS):
        discipline.look(asked(RULES, client=f"d{client}"))
    discipline.look(asked(f"It is 12:9.\n{large}", client="c5"))
    assert {one.client: one.times for one in discipline.findings()}["c5"] == 2


def test_a_node_looks_at_its_own_clients_only() -> None:
    """A guest's prompts are its origin's to judge."""
    told = Told()
    for number, origin in enumerate([None, A] * 3):
        request = replace(asked(f"It is 12:{number}.\n{RULES}"), origin=origin)
        told.tell(RequestArrived(told.at, replace(request, id=ask(f"r{number}").id)))
    (found,) = told.scheduler.findings
    assert found.times == 2
