from pairproxy.core.experiments.setup import AGENT_SESSIONS, Setup

SESSION = '{"id":"t","tool":6,"sys":4,"reqs":[{"tool":5,"sys":1,"reqs":[[0,99,5,0,1,0],[9,200,7,1,1,2]]}]}'


def test_recorded_chains_are_taken_where_they_are() -> None:
    """Generated ones like them elsewhere, the same ones each time."""
    (chain,) = Setup(traces={AGENT_SESSIONS: [SESSION]}).chains()
    assert [step.prompt_tokens for step in chain.steps] == [99, 200]
    assert Setup().chains() == Setup().chains()
    assert len(Setup().chains()) >= 20


def test_another_policy_can_be_compared() -> None:
    """Under the same rules: nobody is refused for having waited."""
    setup = Setup("least-busy")
    assert (setup.rules().policy, setup.rules("fastest-finish").policy) == ("least-busy", "fastest-finish")
    assert setup.rules().queue_timeout_s > 86_400
