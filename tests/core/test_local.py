from dataclasses import replace
from random import Random

import pytest

from pairproxy.core.commands import Command
from pairproxy.core.costs import PRIORS, Costs
from pairproxy.core.documents import CatalogueEntry, EngineCatalogue
from pairproxy.core.events import AttemptFinished, EngineReported
from pairproxy.core.foreign import RAISE_AFTER_S
from pairproxy.core.local import MOST_ASKED, MOST_LOST, LocalEngines
from pairproxy.core.models import AttemptId, EngineId, ModelName, Outcome, Rates, Replica, RequestId, Usage
from pairproxy.core.running import Running, RunningTable
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu
from pairproxy.core.timing import Timing
from tests.core.told import FAST, GPU, A, B, M, Told, ask, at, report, sent

OTHER = EngineId("other")


def test_the_latest_report_of_each_engine_counts() -> None:
    """An engine that is lost has no slots; none ever has fewer than one."""
    local = LocalEngines(A, Costs())
    local.report(report(4))
    local.report(report(2))
    local.report(report(0, engine=OTHER))
    assert local.slots() == {at(A): 2, at(A, OTHER): 1}
    local.lose(GPU)
    local.lose(GPU)
    assert local.slots() == {at(A, OTHER): 1}


def test_a_calibration_is_believed_over_what_was_served() -> None:
    """It read its prompt anew, also if its engine does not say so; a reply knows its engine's prior."""
    local = LocalEngines(A, Costs())
    local.report(report(kind="openai"))
    local.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=1000 / 50_000), Timing())
    assert local.rates(GPU, M).prefill == pytest.approx(50_000)
    local.measured(GPU, M, Usage(prompt_tokens=100, output_tokens=24, prefill_s=0.1, decode_s=0.5))
    assert (local.rates(GPU, M).prefill, local.rates(GPU, M).decode) == pytest.approx((1000.0, 48.0))


def test_a_calibration_in_company_tells_how_requests_slow_each_other() -> None:
    """The sums of those that ran at once: the rate alone stays, the bend is the measured one."""
    local = LocalEngines(A, Costs())
    local.measured(GPU, M, Usage(prompt_tokens=100, output_tokens=24, prefill_s=0.1, decode_s=0.5))
    assert local.rates(GPU, M).share(4) < 0.4, "as is usual of its kind"
    local.measured(GPU, M, Usage(output_tokens=64, decode_s=4 * 16 / 24), 4)
    rates = local.rates(GPU, M)
    assert rates.decode == pytest.approx(48.0, rel=0.02)
    assert rates.decode * rates.share(4) == pytest.approx(24.0, rel=0.05)
    local.measured(GPU, M, Usage(output_tokens=0, decode_s=1.0), 4)
    assert local.rates(GPU, M) == rates, "who wrote nothing says nothing"


def test_what_a_lost_engine_had_is_remembered_within_bounds() -> None:
    """Until it answers again, as it was; the engine that was lost first is forgotten first."""
    local = LocalEngines(A, Costs())
    for number in range(MOST_LOST + 1):
        local.report(report(2, engine=EngineId(f"e{number}")))
        local.lose(EngineId(f"e{number}"))
    assert [place.engine for place, *_ in local.lost_places(M)] == [f"e{n}" for n in range(1, MOST_LOST + 1)]
    assert list(local.lost_places(ModelName("unknown"))) == []
    local.report(report(engine=EngineId("e1")))
    states = local.lost_states(RunningTable(), 0.0)
    assert [state.engine for state in states] == [f"e{n}" for n in range(2, MOST_LOST + 1)]
    assert (states[0].slots, states[0].in_flight, states[0].replicas[0].rates) == (2, 0, PRIORS["paced"])


def test_every_replica_of_every_engine_is_told() -> None:
    """For comparing this node with others."""
    local = LocalEngines(A, Costs())
    local.report(report())
    local.report(report(engine=OTHER, identity="sha256:2"))
    assert [replica.identity for replica in local.replicas()] == ["sha256:1", "sha256:2"]


def test_the_called_engine_comes_first() -> None:
    """Whoever asks an engine by its port means that one, if it can."""
    local = LocalEngines(A, Costs())
    local.report(report())
    local.report(report(engine=OTHER))
    assert [place.engine for place, *_ in local.places(M, OTHER)] == [OTHER, GPU]
    assert [place.engine for place, *_ in local.places(M, None)] == [GPU, OTHER]
    assert list(local.places(ModelName("unknown"), OTHER)) == []


def test_an_answer_is_kept_until_something_is_learned_or_told() -> None:
    """A report, a lesson, a calibration, an engine that is lost: each of them is seen in the next answer."""
    local = LocalEngines(A, Costs())
    local.report(report(4))
    ((_, _, before),) = local.places(M, None)
    assert local.places(M, None) is local.places(M, None)
    local.learn(GPU, M, Usage(prompt_tokens=1000, prefill_s=1000 / 1234), Timing(), is_cold=True)
    ((_, _, after),) = local.places(M, None)
    assert before.rates == PRIORS["paced"]
    assert after.rates.prefill == pytest.approx(1234.0)
    assert local.all_rates(GPU) == {M: after.rates}
    local.measured(GPU, M, Usage(prompt_tokens=100, output_tokens=24, prefill_s=0.1, decode_s=0.5))
    assert local.all_rates(GPU)[M].decode == local.rates(GPU, M).decode == pytest.approx(48.0)
    local.report(replace(report(2), version="another"))
    assert (local.slots(), local.rates(GPU, M)) == ({at(A): 2}, PRIORS["paced"])
    local.lose(GPU)
    assert (local.slots(), [*local.places(M, None)], local.all_rates(GPU)) == ({}, [], {})


def test_names_that_nobody_has_cost_no_memory() -> None:
    """A client may ask for any number of them."""
    local = LocalEngines(A, Costs())
    local.report(report())
    for number in range(3 * MOST_ASKED):
        local.places(ModelName(f"m{number}"), GPU)
        local.rates(GPU, ModelName(f"m{number}"))
    assert max(len(local._answers.places), len(local._answers.rates)) <= MOST_ASKED


def test_an_unlisted_model_is_its_engines_alone() -> None:
    """Its content is unknown, so it equals nobody's."""
    local = LocalEngines(A, Costs())
    local.report(report())
    ((place, engine, state),) = local.unlisted(ModelName("new"), GPU)
    assert (place, engine.kind, state.replica.identity) == (at(A), "paced", "")
    assert list(local.unlisted(ModelName("new"), OTHER)) == []


def test_each_model_has_its_rates() -> None:
    """The prior of the engine's kind until something was measured."""
    local = LocalEngines(A, Costs())
    local.report(report())
    assert local.all_rates(GPU) == {M: PRIORS["paced"]}
    assert local.all_rates(OTHER) == {}


def test_the_state_of_an_engine_depends_on_who_reads_it() -> None:
    """Own requests are counted apart, others' told by when they are expected to end, soonest first."""
    local, table = LocalEngines(A, Costs()), RunningTable()
    local.report(report(4))
    origins = (None, B, None)
    for number, origin in enumerate(origins):
        attempt = AttemptId(RequestId(f"r{number}"), 1)
        table.add(Running(attempt, ask(f"r{number}", origin=origin), at(A), FAST, 0.0, 9.0 - number))
    (state,) = local.states(table, B, 8.0)
    assert (state.slots, state.in_flight, state.yours) == (4, 3, 1)
    assert state.frees_in_s == (0.0, 1.0)
    (state,) = local.states(table, A, 0.0)
    assert (state.yours, state.frees_in_s) == (0, (7.0, 8.0, 9.0))


def test_the_catalogue_is_that_of_the_engines_that_answer() -> None:
    """It follows each report, and its name changes with what it holds."""
    local, listed = LocalEngines(A, Costs()), CatalogueEntry(M, tags='{"name":"m"}')
    empty = local.catalogue()
    assert (empty.node, empty.engines, local.get(GPU)) == (A, (), None)
    told = replace(report(), catalogue=(listed,))
    local.report(told)
    assert local.catalogue().engines == (EngineCatalogue(GPU, "paced", (listed,)),)
    assert local.get(GPU) == told
    assert local.catalogue().content != empty.content
    local.report(report(4))
    assert local.catalogue().engines == (EngineCatalogue(GPU, "paced", ()),)
    local.lose(GPU)
    assert local.catalogue() == empty


def test_foreign_work_lowers_the_slots_that_are_offered() -> None:
    """Clients of the engine's owner slow it down: it is given less, and peers are told, until it is over."""
    told = Told(slots=3, speed=FAST)
    for step in range(8):
        assert told.scheduler.local.slots() == {at(A): 3}
        serve(told, f"usual{step}", 1.0)
    for step in range(12):
        serve(told, f"slow{step}", 2.0)
    state = told.scheduler.document_for(B, "1", 1, "a", told.at).engines[0]
    assert 1 <= state.foreign <= 2
    assert told.scheduler.local.slots() == {at(A): 3 - state.foreign}
    assert state.slots == 3 - state.foreign
    told.passes(100.0)
    assert told.scheduler.local.slots() == {at(A): 3}


def test_what_was_lost_last_comes_back_first_also_where_nobody_asks() -> None:
    """No more is lost than the engine can lose, whether or not anybody asks for its slots meanwhile."""
    told = Told(slots=2, speed=FAST)
    foreign = told.scheduler.local.foreign
    for step in range(8):
        serve(told, f"usual{step}", 1.0)
    changes = foreign.changes
    for step in range(60):
        serve(told, f"slow{step}", 2.0)
        if foreign.changes == changes + 3:
            break
    told.passes(RAISE_AFTER_S)
    assert told.scheduler.local.slots() == {at(A): 2}


def serve(told: Told, name: str, seconds: float) -> None:
    """A reply of 100 tokens that takes so long to write."""
    told.arrives(ask(name))
    told.passes(0.1)
    told.begins(name)
    told.passes(seconds)
    told.finishes(name, tokens=100)


def test_an_engine_that_keeps_quiet_about_its_cache_is_found_to_be_faster() -> None:
    """By prompts that it was never sent, once whatever it held before we came has been replaced."""
    told = Told(speed=None)
    told.tell(EngineReported(told.at, report(kind="ollama")))
    for index in range(30):
        prefill_s = 4.0 if index == 0 else 1.0
        told.arrives(ask(f"r{index}", prompt=2000, prefix=(index + 1, index + 1001)))
        told.passes(prefill_s)
        told.begins(f"r{index}")
        usage = Usage(prompt_tokens=2000, prefill_s=prefill_s)
        told.passes(1.0)
        told.tell(AttemptFinished(told.at, AttemptId(RequestId(f"r{index}"), 1), Outcome.DONE, usage))
    assert told.scheduler.local.rates(GPU, M).prefill == pytest.approx(2000.0, rel=0.05)


def test_a_prompt_that_comes_again_makes_no_engine_faster() -> None:
    """Its engine has it."""
    told = Told(speed=None)
    told.tell(EngineReported(told.at, report(kind="ollama")))
    for index in range(10):
        prefill_s = 4.0 if index == 0 else 0.1
        told.arrives(ask(f"r{index}", prompt=2000, prefix=(1, 2)))
        told.passes(prefill_s)
        told.begins(f"r{index}")
        usage = Usage(prompt_tokens=2000, prefill_s=prefill_s)
        told.passes(1.0)
        told.tell(AttemptFinished(told.at, AttemptId(RequestId(f"r{index}"), 1), Outcome.DONE, usage))
    assert told.scheduler.local.rates(GPU, M).prefill == pytest.approx(500.0, rel=0.05)


def test_an_engine_of_a_new_version_is_measured_anew() -> None:
    """What was learned belongs to the old one."""
    told = Told(speed=FAST)
    assert told.scheduler.local.rates(GPU, M).decode == pytest.approx(FAST.decode)
    told.tell(EngineReported(told.at, replace(report(), version="2")))
    assert told.scheduler.local.rates(GPU, M) == PRIORS["paced"]
    told.tell(EngineReported(told.at, report()))
    assert told.scheduler.local.rates(GPU, M).decode == pytest.approx(FAST.decode, rel=0.001)


def test_a_model_that_was_loaded_for_a_prompt_had_none_of_it() -> None:
    """So the first reply after a load proves how fast its engine reads; waiting in a queue is no load."""
    told = Told(speed=None)
    for is_loaded, name in ((True, "first"), (True, "queued"), (False, "cold")):
        told.tell(
            EngineReported(told.at, replace(report(kind="ollama"), replicas=((Replica(M, "x"), is_loaded),)))
        )
        told.arrives(ask(name, prompt=2000))
        told.passes(9.0)
        told.begins(name)
        usage = Usage(prompt_tokens=2000, prefill_s=4.0 if name == "first" else 0.5, load_s=5.0)
        told.tell(AttemptFinished(told.at, AttemptId(RequestId(name), 1), Outcome.DONE, usage))
        found = told.scheduler.local.rates(GPU, M).prefill
        assert found == pytest.approx(4000.0 if name == "cold" else 500.0)


@pytest.mark.parametrize("beta", [0.03, 0.8, 1.5])
def test_the_bend_of_an_engines_curve_is_found_within_twenty_requests(beta: float) -> None:
    """Measured alone, of a kind whose published bend is another: what one to four at once get is known."""
    truth = Rates(prefill=2000.0, decode=60.0, beta=beta)
    told, gpu, random = Told(slots=4, speed=truth), SimulatedGpu(4), Random(7)
    gpu.preload(0.0, M)
    asked = 0

    def sends(commands: list[Command]) -> None:
        for name, _ in sent(commands):
            tokens[name] = random.randint(40, 400)
            gpu.start(told.at, AttemptId(RequestId(name), 1), M, truth, 200, tokens[name])

    tokens: dict[str, int] = {}
    while asked < 20 or gpu.in_flight:
        while asked < 20 and gpu.in_flight < random.randint(1, 4):
            sends(told.arrives(ask(f"r{asked}", prompt=200)))
            asked += 1
        change = gpu.next_change()
        assert change is not None
        told.at = change
        for reached in gpu.advance(change):
            name = reached.attempt.request
            if reached.phase is Phase.PREFILL:
                told.begins(name)
            elif reached.phase is Phase.DECODE:
                sends(told.finishes(name, tokens=tokens[name]))
    found = told.scheduler.local.rates(GPU, M)
    for company in range(1, 5):
        got, is_so = found.decode * found.share(company), truth.decode * truth.share(company)
        assert got == pytest.approx(is_so, rel=0.2)
