import json

import msgspec
import pytest

from pairproxy.cli.bench.overhead.document import Document, from_json, to_json


def test_it_is_read_back_as_it_was(document: Document) -> None:
    """The gates beside it are for others, and judged anew."""
    told = to_json(document)
    assert from_json(told) == document
    assert {gate["verdict"] for gate in json.loads(told)["gates"]} >= {"passed", "not measured"}


def test_cases_stand_in_their_order(document: Document) -> None:
    """With the targets that have figures."""
    assert [case.name for case in document.cases()] == ["json-1", "paced-512", "json-64", "stalled"]
    assert document.targets("json-1") == ["nginx", "pass-through", "pairproxy"]


def test_another_document_is_refused() -> None:
    """It is not read as an empty one."""
    with pytest.raises(msgspec.DecodeError):
        from_json("{}")
