import msgspec

from pairproxy.api.runs import Exported, Runs, RunSummary

RUN = RunSummary("job", "job", 1.8e9, 2.5, 5, {"done": 5}, 2, 3, 2.5, 1.9, 1.7, 0.9, 500)


def test_it_comes_back_as_it_was() -> None:
    """What the daemon writes is what the faces read, and what stands in the file."""
    for document in (Runs("N", (RUN,), True, "The disk is full."), Exported("a.csv", "csv", 1, 5)):
        assert msgspec.json.decode(msgspec.json.encode(document), type=type(document)) == document


def test_a_line_of_an_older_version_can_be_read() -> None:
    """History keeps them for a season: what is added since has a default."""
    told = (
        b'{"run":"r","name":null,"started_unix":1.0,"makespan_s":2.0,"requests":1,"outcomes":{"done":1},"nodes":1,'
        b'"slots":1,"bound_waves":1.0,"bound_provable":null,"speedup":null,"efficiency":null,"output_tokens":9}'
    )
    assert msgspec.json.decode(told, type=RunSummary).requests == 1
