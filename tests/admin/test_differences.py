import pytest

from pairproxy.admin.differences import listed
from pairproxy.admin.holdings import Known, KnownNode
from pairproxy.admin.matrix import lay_out
from pairproxy.api.models import ModelRow
from pairproxy.core.documents import EngineState, ReplicaState
from pairproxy.core.models import EngineId, ModelName, NodeId, Rates, Replica

M = ModelName("qwen3:8b")
RATES = Rates(1000.0, 50.0, 0.1)


def engine(kind: str = "ollama", *replicas: Replica, slots: int = 1, loaded: bool = True) -> EngineState:
    """One engine that holds these."""
    states = tuple(ReplicaState(one, loaded, RATES) for one in replicas)
    return EngineState(EngineId(f"{kind}-1"), kind, "1", slots, 0, 0, (), states)


def q(identity: str = "sha256:1", window: int | None = 8192, **facts: object) -> Replica:
    """The model, by its content."""
    return Replica(M, identity, window, **facts)  # type: ignore[arg-type]


def node(name: str, *engines: EngineState, up: bool = True, **more: object) -> KnownNode:
    """A node of this name."""
    return KnownNode(NodeId(name), name, up, engines=engines, **more)  # type: ignore[arg-type]


def row(*nodes: KnownNode, **more: object) -> ModelRow:
    """The only row of these nodes' matrix."""
    (found,) = lay_out(Known(nodes, **more)).models  # type: ignore[arg-type]
    return found


def test_nothing_is_said_of_equal_replicas() -> None:
    """Two nodes, the same content: balanced, nothing differs, costs or helps."""
    found = row(node("anna", engine("ollama", q())), node("ben", engine("ollama", q())))
    assert (found.replicas, found.differences, found.costs, found.fix) == (2, (), "", "")


def test_one_replica_only_names_the_command_and_the_machine() -> None:
    """The other node has an Ollama: it pulls the model there."""
    found = row(node("anna", engine("ollama", q())), node("ben", engine("ollama")))
    assert (found.replicas, found.differences) == (1, ())
    assert found.costs == "No balancing possible: every request for it runs on this machine."
    assert found.fix == "On ben: `pairproxy replicate qwen3:8b --from anna`, or `ollama pull qwen3:8b`."


def test_a_model_only_at_a_peer_is_pulled_here() -> None:
    """The sentence names the peer that serves all."""
    found = row(node("anna", engine("ollama")), node("ben", engine("ollama", q())))
    assert found.costs == "No balancing possible: every request for it runs on ben."
    assert found.fix == "On anna: `pairproxy replicate qwen3:8b --from ben`, or `ollama pull qwen3:8b`."


@pytest.mark.parametrize(
    ("source", "there", "fix"),
    [
        ("lmstudio", "lmstudio", "`lms get qwen3:8b`"),
        ("llamacpp", "llamacpp", "same file"),
        ("ollama", "openai", 'aliases = { "qwen3:8b" = "its name there" }'),
    ],
)
def test_the_way_to_a_second_replica_is_the_engines_own(source: str, there: str, fix: str) -> None:
    """Engines of one kind fetch it in their way; of another kind, a person maps a name."""
    found = row(node("anna", engine(source, q())), node("ben", engine(there)))
    assert fix in found.fix


def test_a_node_without_an_engine_is_told_so() -> None:
    """Nothing can be pulled where nothing runs."""
    assert "ben: start an engine there" in row(node("anna", engine("ollama", q())), node("ben")).fix


def test_a_model_s_name_is_no_shell_command() -> None:
    """Names come from other machines, and the fix is copied into a shell."""
    evil = Replica(ModelName("x;reboot:latest"), "sha256:1")
    found = row(node("anna", engine("ollama")), node("ben", engine("ollama", evil)))
    assert "`ollama pull 'x;reboot:latest'`" in found.fix


def test_a_single_machine_is_told_to_pair() -> None:
    """There is nobody to balance with."""
    found = row(node("anna", engine("ollama", q())))
    assert "pairproxy pair" in found.fix
    assert "No balancing" in found.costs


def test_other_content_is_named_costs_its_slots_and_is_pulled_anew() -> None:
    """Two share the content, the third has another one."""
    found = row(
        node("anna", engine("ollama", q())),
        node("ben", engine("ollama", q())),
        node("carl", engine("ollama", q("sha256:2"), slots=3)),
    )
    assert found.replicas == 2
    assert found.differences == (
        "carl has other content under this name (2; anna has 1). It is never mixed.",
    )
    assert found.costs == "3 slots of carl are not used for requests that arrive here."
    assert "On carl: `ollama pull qwen3:8b`; if they still differ, then on anna and ben too." in found.fix
    assert "engines.aliases" in found.fix


def test_content_that_is_not_named_leads_to_aliases() -> None:
    """A server of OpenAI's API says nothing about what it serves."""
    found = row(
        node("anna", engine("openai", q("only-here:1"))), node("ben", engine("openai", q("only-here:2")))
    )
    assert [cell.state for cell in found.cells] == ["same", "unknown"]
    assert "does not say what its content is" in found.differences[0]
    assert "docs/mixed-engines.md" in found.fix


@pytest.mark.parametrize(
    ("kind", "way"),
    [("ollama", "OLLAMA_CONTEXT_LENGTH=8192"), ("embedded", "engines.context_tokens = 8192"), ("paced", "")],
)
def test_a_smaller_window_costs_the_long_requests(kind: str, way: str) -> None:
    """What it costs, and how this kind of engine gets a wider one."""
    found = row(node("anna", engine(kind, q())), node("ben", engine(kind, q(window=4096))))
    assert found.differences == ("ben has a window of 4,096 tokens; the widest has 8,192.",)
    assert found.costs == "Longer requests cannot run on ben."
    assert way in found.fix
    assert bool(found.fix) is bool(way)


def test_a_window_that_is_not_known_is_no_difference() -> None:
    """A cold model of Ollama's has none."""
    found = row(node("anna", engine("ollama", q())), node("ben", engine("ollama", q(window=None))))
    assert found.differences == ()


def test_what_one_node_cannot_do_is_told() -> None:
    """Images go elsewhere, as core.gates has it; embedding is asked of any model."""
    sees = frozenset({"completion", "vision", "embedding"})
    found = row(
        node("anna", engine("ollama", q(capabilities=sees))),
        node("ben", engine("ollama", q(capabilities=frozenset({"completion"})))),
    )
    assert found.differences == ("ben does not offer vision: such requests go elsewhere.",)


def test_hashes_that_differ_part_embeddings_only() -> None:
    """The same by all that is known of it: it is balanced, but vectors are not compared."""
    one = q("sha256:1", facts="show:1", capabilities=frozenset({"embedding"}))
    other = q("sha256:2", facts="show:1", capabilities=frozenset({"embedding"}))
    found = row(node("anna", engine("ollama", one)), node("ben", engine("ollama", other)))
    assert found.replicas == 2
    assert "embeddings stay" in found.differences[0]


def test_an_alias_and_an_engine_without_ollama_s_api_are_told() -> None:
    """They are balanced for OpenAI's API only, and by a person's word."""
    there = q("openai:x", called="Qwen/Qwen3-8B")
    found = row(node("anna", engine("ollama", q())), node("ben", engine("openai", there)))
    assert found.replicas == 2
    assert found.differences == (
        "ben: only requests of OpenAI's API can run there, none of Ollama's /api.",
        "ben has it by an alias, for Qwen/Qwen3-8B.",
    )


def test_what_a_person_decided_is_told_and_not_mended() -> None:
    """routing.local_only keeps it here; a peer may not use it; neither is a fault to fix."""
    nodes = (node("anna", engine("ollama", q())), node("ben", engine("ollama", q())))
    found = row(*nodes, local_only=("qwen*",))
    assert (found.replicas, found.fix) == (1, "")
    assert "routing.local_only" in found.differences[0]
    barred = row(*nodes, may_use=lambda peer, model: peer != "ben")
    assert barred.differences == ("ben may not use it on this machine (`pairproxy rights`).",)
    assert barred.replicas == 2


def test_a_model_that_must_stay_where_it_is_not_is_served_by_nobody() -> None:
    """And the setting that does it is named."""
    found = row(node("anna"), node("ben", engine("ollama", q())), local_only=("qwen*",))
    assert found.costs == "Nobody can serve it now."
    assert "routing.local_only" in found.fix


def test_a_draining_node_serves_nothing_new() -> None:
    """It has the replica, and is not counted."""
    found = row(node("anna", engine("ollama", q())), node("ben", engine("ollama", q()), is_draining=True))
    assert (found.replicas, found.differences) == (1, ("ben: takes no new work now.",))


def test_a_silent_engine_of_this_machine_is_to_be_started() -> None:
    """What it had is kept in mind."""
    found = row(node("anna", silent=(engine("ollama", q()),)))
    assert (found.costs, found.cells[0].state) == ("Nobody can serve it now.", "away")
    assert found.fix == "Start ollama-1 on this machine: it does not answer."


def test_many_nodes_are_some_names_and_a_number() -> None:
    """A sentence stays one."""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(number) for number in range(16)]) == "0, 1, 2, 3 and 12 more"
