import json
import re
from typing import Any

import msgspec
import pytest

from pairproxy.api import schema
from pairproxy.api.schema import (
    DaemonFile,
    EngineStatus,
    NodeStatus,
    Record,
    ReplicaStatus,
    Report,
    RunningStatus,
    Status,
)
from pairproxy.core.accounting.report import report_run
from tests.core.accounting.conversation import A, B, served
from tests.core.accounting.test_report import five_on_two

REPORT = report_run(five_on_two(), {A: 1, B: 1}, None)
REPLICA = ReplicaStatus("m:1b", "sha256:1", True, 4096, 100.0, 10.0)
ENGINE = EngineStatus("gpu", "ollama", "0.33", 2, 1, (REPLICA,), 11434)
NODE = NodeStatus("N", "anna", True, True, (ENGINE,))
RUNNING = RunningStatus("r", "m:1b", "N", "gpu", 1.5, True)
STATUS = Status(
    "0.1.0", "N", "anna", 9.5, "fastest-finish", False, 3, (NODE,), (RUNNING,), 7, None, {"X": "h:1"}, REPORT
)
RECORD = Record("r", "N", "gpu", "done", 0.0, 0.1, 0.2, 0.3, 10, 20, 1, "finishes first")
DOCUMENTS = [STATUS, Report(REPORT, (RECORD,), {A: "anna"}), DaemonFile(1, "N", "anna", 2, None, {"gpu": 3})]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: type(document).__name__)
def test_it_comes_back_as_it_was(document: msgspec.Struct) -> None:
    """What the daemon writes is what the faces read."""
    assert msgspec.json.decode(msgspec.json.encode(document), type=type(document)) == document


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: type(document).__name__)
def test_adding_is_free(document: msgspec.Struct) -> None:
    """A face reads the JSON of a newer daemon: fields that it does not know do no harm."""
    grown = {**json.loads(msgspec.json.encode(document)), "something_new": [1, 2]}
    assert msgspec.json.decode(json.dumps(grown), type=type(document)) == document


def numbers(value: Any, key: str = "") -> list[str]:
    """The keys of all fractions in a document."""
    if isinstance(value, dict):
        return [one for name, inner in value.items() for one in numbers(inner, name)]
    if isinstance(value, list):
        return [one for inner in value for one in numbers(inner, key)]
    return [key] if isinstance(value, float) else []


def test_every_fraction_says_its_unit() -> None:
    """Seconds end in _s, rates in _per_s; what remains is a ratio."""
    keys = {key for document in DOCUMENTS for key in numbers(json.loads(msgspec.json.encode(document)))}
    ratios = {"speedup", "bound_waves", "bound_provable", "efficiency", "share"}
    assert {key for key in keys if not re.search(r"_s$|_unix$", key)} <= ratios


def test_every_document_explains_itself() -> None:
    """The module is the reference: each of its structs has a docstring of its own."""
    structs = [
        one for one in vars(schema).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    own = [one for one in structs if one.__module__ == schema.__name__]
    assert len(own) >= 8
    assert all(one.__doc__ and not one.__doc__.startswith(one.__name__) for one in own)


def test_a_record_of_the_ledger_fits() -> None:
    """Each outcome word and a request that never started are valid in a Record."""
    refused = served("r", 0.0, 0.0, 1.0)
    record = Record(refused.id, None, None, refused.outcome, 0.0, None, None, 1.0, None, None, 0, None)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record
