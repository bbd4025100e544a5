"""What an experiment is run with: the policy under test, and the public traces if they are at hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from pairproxy.core.rules import Rules
from pairproxy.core.workloads.chains import Chain, sub_agent
from pairproxy.core.workloads.traces import agent_chains

AGENT_SESSIONS, DYNAMO_RUN = "agent_sessions.jsonl", "dynamo_pi_agent_run.jsonl"
MOONCAKE, AZURE = "mooncake_conversation_head.jsonl", "azure2023_code_head.csv"
TRACES = (AGENT_SESSIONS, DYNAMO_RUN, MOONCAKE, AZURE)
PATIENCE_S = 1e6  # nothing is refused for having waited: all of the work is to be done
QUEUE = 4096  # requests; the same for the length of the queue
MADE_CHAINS = 60  # generated ones, where the recorded are not at hand


@dataclass(frozen=True, slots=True)
class Setup:
    """``traces``: the lines of each public trace that is there, by the name of its file."""

    policy: str = "fastest-finish"
    traces: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _chains: list[Chain] = field(default_factory=list, compare=False)

    def rules(self, policy: str = "") -> Rules:
        """The rules of every node; another policy than the one under test to compare with."""
        return Rules(policy or self.policy, queue_limit=QUEUE, queue_timeout_s=PATIENCE_S)

    def chains(self) -> list[Chain]:
        """Recorded sub-agents and short coding sessions; where they are not at hand, made ones like them."""
        if not self._chains:
            lines = self.traces.get(AGENT_SESSIONS)
            made = (sub_agent(Random(seed)) for seed in range(MADE_CHAINS))
            self._chains.extend(made if lines is None else agent_chains(lines, sub_agents_only=False))
        return self._chains
