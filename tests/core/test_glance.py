"""What a glance says is what the prices would have said."""

from random import Random

from pairproxy.core.models import AttemptId, NodeId, Rates, RequestId
from pairproxy.core.policies import Asked, fastest_finish
from pairproxy.core.queue import Waiting
from pairproxy.core.running import Running
from tests.core.told import B, Told, ask, at, document


class Looking(Told):
    """A node with a few peers, some of which keep a slot free that nobody should use."""

    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        super().__init__(slots=random.randrange(1, 4), speed=Rates(300.0, 20.0, 0.15))
        for number in range(random.randrange(1, 8)):
            rates = Rates(
                random.uniform(200, 4000), random.uniform(10, 200), random.choice((0.03, 0.15, 0.8))
            )
            frees = tuple(random.uniform(0, 9) for _ in range(random.randrange(3)))
            slots = len(frees) + random.randrange(3)
            self.hears(document(NodeId(f"n{number}"), slots=max(slots, 1), frees=frees, rates=rates))
        self.asked = 0

    def ask_some(self, count: int, clients: int) -> None:
        """So many requests of different sizes, of prompts that begin alike."""
        for _ in range(count):
            self.asked += 1
            blocks = tuple(
                self.random.randrange(4) * 1000 + block for block in range(self.random.choice((0, 5, 9)))
            )
            self.at += 0.002
            self.arrives(
                ask(
                    f"r{self.asked}",
                    prompt=64 * len(blocks) + self.random.randrange(50, 3000),
                    limit=self.random.choice((None, 100, 2000)),
                    client=f"c{self.asked % clients}",
                    prefix=blocks,
                )
            )

    def compare(self) -> int:
        """Walk the queue as the planner does, by prices alone, and compare; how often a glance was enough."""
        pricing, at = self.scheduler._knows.pricing, self.at
        queue = list(self.scheduler._knows.queue)
        occupancies = pricing.occupancies(at)
        pricing.bursts.update(queue)
        risks = pricing.risks(len(queue), occupancies, at)
        glance = pricing.glance(risks, occupancies, at)
        enough = 0
        for waiting in queue:
            risks.turn_to_next()
            request, lengths = waiting.request, pricing.lengths(waiting.request)
            ahead = glance.ahead(request, waiting.excluded, lengths)
            candidates = pricing.candidates(request, waiting.excluded, occupancies, at)
            pick, _ = fastest_finish(risks.priced(request, candidates), Asked(request, self.random))
            if ahead is not None:
                enough += 1
                assert not pick.is_free
                if not request.prefix:
                    assert ahead.occupancy.place == pick.place
                    assert ahead.before_s == pick.load_s + pick.prefill_s
                    assert ahead.alone_s == pick.alone_s
            occupancies[pick.place].take(pick.load_s + pick.prefill_s, pick.alone_s)
        return enough


def test_who_waits_at_a_glance_waits_by_its_prices_too() -> None:
    """In sixty clusters, for bursts and single requests, with prompts that are held and that are not."""
    enough = 0
    for seed in range(60):
        told = Looking(seed)
        told.ask_some(30, clients=1 + seed % 12)
        told.passes(0.5)
        enough += told.compare()
    assert enough > 100


def test_a_model_that_is_not_loaded_holds_no_prompt() -> None:
    """Also where loading takes no time: a free place that is sooner by the prices is seen."""
    told, rates = Told(speed=Rates(50.0, 50.0, 0.15)), Rates(100.0, 50.0, 0.15)
    told.hears(document(B, loaded=False, rates=rates))
    blocks = tuple(range(1, 31))
    asked = [ask(name, prompt=1920, prefix=blocks) for name in ("r1", "r2")]
    knows, pricing = told.scheduler._knows, told.scheduler._knows.pricing
    knows.running.add(Running(AttemptId(RequestId("r1"), 1), asked[0], at(B), rates, 0.0, 1.0))
    occupancies = pricing.occupancies(told.at)
    pick = min(pricing.candidates(asked[1], (), occupancies, told.at), key=lambda one: one.finish_s)
    pricing.bursts.update([Waiting(asked[1], told.at)])
    glance = pricing.glance(pricing.risks(1, occupancies, told.at), occupancies, told.at)
    assert pick.is_free
    assert glance.ahead(asked[1], (), pricing.lengths(asked[1])) is None
