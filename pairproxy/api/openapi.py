"""The published description of the admin port: OpenAPI 3.1, made from the structs that are sent.

Fields may be added to a document at any time: whoever reads one ignores what it does not know.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import msgspec

from pairproxy import __version__
from pairproxy.api.advice import AdviceReport
from pairproxy.api.fields import described
from pairproxy.api.models import ModelMatrix
from pairproxy.api.offering import DrainAnswer
from pairproxy.api.printed import PRINTED
from pairproxy.api.replication import CopyProgress
from pairproxy.api.runs import Runs
from pairproxy.api.schema import Explanation, KeysChanged, Report, SettingsReread, Status, TrustChanged
from pairproxy.api.settings import SettingsInForce

REF = "#/components/schemas/{name}"
JSON, TEXT, STREAM, PAGE = "application/json", "text/plain", "text/event-stream", "text/html"
LINES = "application/x-ndjson"


class Error(msgspec.Struct, frozen=True):
    """Every answer that is no 2xx, but for /ready: what is wrong, and what to do."""

    error: str  # a sentence for a person


class Health(msgspec.Struct, frozen=True):
    """GET /health: the daemon answers."""

    status: str  # ok


class Ready(msgspec.Struct, frozen=True):
    """GET /ready, with 200 or 503: whether any node takes work."""

    ready: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One parameter of the query."""

    name: str
    kind: type
    about: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What can be asked. ``answer`` None: no JSON. ``errors``: beside those of every path."""

    path: str
    about: str
    answer: type | None
    media: str = JSON
    query: tuple[Asked, ...] = ()
    errors: tuple[int, ...] = ()
    is_change: bool = False


_RUN = Asked("run", str, "A run's name, or its id. Default: the last run.")

ENDPOINTS = (
    Endpoint("/status", "Nodes, engines, models, what runs and waits, the run that goes on.", Status),
    Endpoint(
        "/report",
        "A run: speedup, bounds, where the loss went, every request, the timeline.",
        Report,
        query=(
            _RUN,
            Asked("recording", bool, "true: with what `pairproxy whatif` replays."),
            Asked("watched", bool, "true: the last report that was made will do."),
        ),
        errors=(404,),
    ),
    Endpoint(
        "/runs",
        "The runs that are remembered, in memory and on disk, the latest first.",
        Runs,
        query=(
            Asked("since", float, "Only runs that began then or later, in seconds of the epoch."),
            Asked("limit", int, "At most so many."),
        ),
        errors=(400,),
    ),
    Endpoint(
        "/requests/{id}",
        "One request: how it was decided and what came of it. `last`, an id, or the beginning of one.",
        Explanation,
        errors=(400, 404),
    ),
    Endpoint(
        "/models", "Which node holds which model, what differs, what it costs and what helps.", ModelMatrix
    ),
    Endpoint(
        "/advice",
        "What would make the workload faster, from what was measured.",
        AdviceReport,
        query=(_RUN,),
        errors=(404,),
    ),
    Endpoint(
        "/events",
        "The same live, as server-sent events: `status` holds a Status, `run` the id of a new report.",
        None,
        STREAM,
        errors=(503,),
    ),
    Endpoint("/config", "The settings that the daemon goes by, secrets hidden.", SettingsInForce),
    Endpoint("/metrics", "For Prometheus, in its text format.", None, TEXT),
    Endpoint("/health", "Whether the daemon answers.", Health),
    Endpoint("/ready", "Whether any node takes work: 200 or 503.", Ready),
    Endpoint("/openapi.json", "This description.", None),
    Endpoint("/", "The page for people.", None, PAGE),
    Endpoint("/trust", "Read the files of the paired machines anew.", TrustChanged, is_change=True),
    Endpoint("/settings", "Read the settings anew.", SettingsReread, is_change=True),
    Endpoint(
        "/drain",
        "Take no new work of peers (a DrainWish), or take it again.",
        DrainAnswer,
        errors=(400,),
        is_change=True,
    ),
    Endpoint(
        "/replicate",
        "Copy a model between two nodes (a CopyWish); a CopyProgress each half second, a line each.",
        CopyProgress,
        LINES,
        errors=(400, 404, 409, 502),
        is_change=True,
    ),
    Endpoint("/keys", "Read the keys of clients beyond loopback anew.", KeysChanged, is_change=True),
)


def build() -> dict[str, Any]:
    """The whole document, as whoever reads it has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_document()))
    return found


def encoded() -> bytes:
    """The document as it is served and committed."""
    return msgspec.json.format(msgspec.json.encode(_document()), indent=1) + b"\n"


def field_types(document: Mapping[str, Any]) -> dict[str, Any]:
    """``Schema.field`` -> its schema without description and default: what nobody may change."""
    return {
        f"{name}.{field}": {
            key: value for key, value in told.items() if key not in ("description", "default")
        }
        for name, schema in document["components"]["schemas"].items()
        for field, told in schema.get("properties", {}).items()
    }


def _document() -> dict[str, Any]:
    kinds = {one for endpoint in ENDPOINTS if (one := endpoint.answer) is not None}
    kinds |= {one for printed in PRINTED.values() for one in printed} | {Error}
    schemas = _schemas(sorted(kinds, key=lambda kind: kind.__name__))
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        method = "post" if endpoint.is_change else "get"
        paths.setdefault(endpoint.path, {})[method] = _operation(endpoint, method)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pairproxy's admin port",
            "version": __version__,
            "summary": "What the daemon of this machine knows, for commands, pages and monitoring.",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:11633", "description": "admin.listen; loopback only"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`token` in daemon.json of the home directory, new with each start.",
                }
            },
        },
        "x-commands": {
            f"pairproxy {name} --json": _any_of(printed) for name, printed in sorted(PRINTED.items())
        },
    }


_ABOUT = (
    "Everybody on this machine may read; a change takes the token. Names end in their unit: _s seconds, "
    "_tokens tokens, _bytes bytes, _per_s per second, _unix seconds of the epoch. Fields and values may be "
    "added at any time, none is renamed or changes its type within a major version: ignore what you do not "
    "know. `x-commands` says which document each command prints with --json."
)


def _operation(endpoint: Endpoint, method: str) -> dict[str, Any]:
    name = endpoint.path.strip("/").partition("/")[0].partition(".")[0] or "page"
    operation: dict[str, Any] = {"operationId": f"{method}_{name}", "summary": endpoint.about}
    parameters = [_parameter(one) for one in endpoint.query]
    if "{id}" in endpoint.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    if parameters:
        operation["parameters"] = parameters
    if endpoint.is_change:
        operation["security"] = [{"token": []}]
    schema = _ref(endpoint.answer) if endpoint.answer is not None else _without(endpoint.media)
    content = {endpoint.media: {"schema": schema}}
    answers: dict[str, Any] = {"200": {"description": endpoint.about, "content": content}}
    for status in sorted({403, *endpoint.errors}):
        answers[str(status)] = {"description": _WHY[status], "content": {JSON: {"schema": _ref(Error)}}}
    if endpoint.answer is Ready:
        answers["503"] = {"description": "No node takes work now.", "content": content}
    answers["default"] = {"description": _OTHER, "content": {JSON: {"schema": _ref(Error)}}}
    operation["responses"] = answers
    return operation


_OTHER = "It could not be done, or the daemon failed; its log says more."
_WHY = {
    400: "What was asked for is not clear.",
    403: "Another site's Host or Origin, or a change without the token.",
    404: "It is not remembered.",
    409: "It cannot be, as things are; the sentence says what to do.",
    502: "The other machine does not answer.",
    503: "As many watch as may.",
}


def _without(media: str) -> dict[str, Any]:
    return {"type": "object"} if media == JSON else {"type": "string"}


def _parameter(asked: Asked) -> dict[str, Any]:
    types = {str: "string", bool: "boolean", int: "integer", float: "number"}
    schema = {"type": types[asked.kind]}
    return {
        "name": asked.name,
        "in": "query",
        "required": False,
        "description": asked.about,
        "schema": schema,
    }


def _any_of(kinds: Sequence[type]) -> dict[str, Any]:
    return _ref(kinds[0]) if len(kinds) == 1 else {"anyOf": [_ref(kind) for kind in kinds]}


def _ref(kind: type) -> dict[str, Any]:
    return {"$ref": REF.format(name=kind.__name__)}


# --- schemas --------------------------------------------------------------------------------------------


def _schemas(kinds: Sequence[type]) -> dict[str, Any]:
    """Every document and what it is made of, by name, with what is known of each field."""
    _, found = msgspec.json.schema_components(kinds, ref_template=REF)
    for kind, fields in described(_parts(kinds)).items():
        properties = found[kind.__name__]["properties"]
        for name, about in fields.items():
            properties[name] = {**properties[name], "description": about}
    return dict(sorted(found.items()))


def _parts(kinds: Sequence[Any]) -> Iterator[type]:
    """These classes and all that their fields are made of, each once."""
    seen: set[type] = set()
    left = [*kinds]
    while left:
        kind = left.pop()
        left += get_args(kind)
        is_document = isinstance(kind, type) and (
            issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)
        )
        if is_document and kind not in seen:
            seen.add(kind)
            yield kind
            left += get_type_hints(kind).values()
