import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import typer
from openapi_spec_validator import validate

from pairproxy.api.openapi import ENDPOINTS, build, encoded, field_types
from pairproxy.api.printed import PRINTED
from pairproxy.cli.commands import app
from tests.api.test_models import MATRIX
from tests.api.test_schema import STATUS

ROOT = Path(__file__).parent.parent.parent
FROZEN = ROOT / "tests" / "data" / "published_fields.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What is published."""
    return build()


def told(document: dict[str, Any], name: str, value: Any) -> list[str]:
    """What is wrong with a value by the published schema of this name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    checker = jsonschema.Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(value)]


def test_it_is_a_valid_openapi_document(document: dict[str, Any]) -> None:
    """By a judge that is not ours."""
    validate(document)


def test_the_committed_file_is_what_the_code_says() -> None:
    """docs/openapi.json is what scripts/docs writes now."""
    assert (ROOT / "docs" / "openapi.json").read_bytes() == encoded(), "run .venv/bin/python scripts/docs"


def test_what_was_published_stays(document: dict[str, Any]) -> None:
    """Every field of the last release is there and has its type; more may have come."""
    published: dict[str, Any] = json.loads(FROZEN.read_text())
    now = field_types(document)
    assert len(published) > 100
    broken = {name: now.get(name) for name, schema in published.items() if not holds(now.get(name), schema)}
    assert not broken, "a released field was renamed, removed or has another type: add a new one instead"


def holds(now: Any, before: Any) -> bool:
    """Whether a reader of ``before`` can read ``now``: the same, or a closed list of words that grew."""
    if isinstance(now, dict) and isinstance(before, dict) and "enum" in before:
        return set(before["enum"]) <= set(now.get("enum", ()))
    return bool(now == before)


@pytest.mark.parametrize(
    ("before", "now", "is_kept"),
    [
        ({"type": "string"}, {"type": "string"}, True),
        ({"type": "string"}, {"type": "integer"}, False),
        ({"type": "string"}, None, False),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, True),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, False),
    ],
)
def test_a_breaking_change_is_seen(before: Any, now: Any, is_kept: bool) -> None:
    """A type that changes, a field that goes, a word that goes; a new word is none."""
    assert holds(now, before) is is_kept


def test_documents_are_valid_and_may_grow(document: dict[str, Any]) -> None:
    """What the daemon sends fits, also with a field that the schema does not know; what is odd does not."""
    for name, value in (("Status", STATUS), ("ModelMatrix", MATRIX)):
        plain = json.loads(msgspec.json.encode(value))
        assert told(document, name, plain) == []
        assert told(document, name, {**plain, "something_new": 1}) == []
        assert told(document, name, {**plain, "node": 7}) != []
        assert told(document, name, {key: one for key, one in plain.items() if key != "node"}) != []


def test_no_schema_forbids_what_is_added(document: dict[str, Any]) -> None:
    """Adding is free: nowhere are further fields ruled out."""
    assert '"additionalProperties": false' not in json.dumps(document)


def test_numbers_tell_their_unit_and_documents_what_they_are(document: dict[str, Any]) -> None:
    """Seconds and tokens say so; each document has its docstring."""
    schemas = document["components"]["schemas"]
    assert all(schema.get("description") for schema in schemas.values())
    assert schemas["Status"]["properties"]["uptime_s"]["description"].startswith("seconds")
    assert "on which paired machines are heard" in schemas["Status"]["properties"]["peer_port"]["description"]


def test_changes_take_the_token_and_looking_does_not(document: dict[str, Any]) -> None:
    """As the port does it."""
    for path, methods in document["paths"].items():
        assert ("security" in methods.get("post", {})) is ("post" in methods), path
        assert "security" not in methods.get("get", {}), path
    assert {one.path for one in ENDPOINTS if one.is_change} >= {"/trust", "/settings", "/drain"}


def printing() -> set[str]:
    """Every command that has --json, as the command line itself tells."""
    return {
        name
        for name, command in _commands(typer.main.get_command(app))
        if any("--json" in parameter.opts for parameter in command.params)
    }


def _commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, those of groups too."""
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")


def test_every_command_that_prints_json_publishes_its_schema(document: dict[str, Any]) -> None:
    """None is left out, and none is there that does not exist."""
    assert printing() == set(PRINTED)
    assert set(document["x-commands"]) == {f"pairproxy {name} --json" for name in PRINTED}


def test_commands_do_not_load_it() -> None:
    """It is made when somebody asks for it: to start a command takes a moment."""
    program = "import sys, pairproxy.cli, pairproxy.api.client; print('pairproxy.api.openapi' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == "False"
