"""What a field of a published document means: its unit by its name, and the comment that stands beside it."""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterable
from functools import cache
from types import ModuleType

UNITS = {
    "_per_s": "tokens a second",
    "_unix": "seconds of the epoch",
    "_bytes": "bytes",
    "_tokens": "tokens",
    "_s": "seconds",
}
"""By the end of a name; the first that fits."""


def unit_of(name: str) -> str:
    """The unit in which a field is told; "": its name says none."""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def described(kinds: Iterable[type]) -> dict[type, dict[str, str]]:
    """What there is to say of each field of these classes: unit and comment, where it has one."""
    found: dict[type, dict[str, str]] = {}
    for kind in kinds:
        comments = _comments(inspect.getmodule(kind)).get(kind.__name__, {})
        told = {}
        for name in inspect.get_annotations(kind):
            parts = [part for part in (unit_of(name), comments.get(name, "")) if part]
            if parts:
                told[name] = "; ".join(parts)
        found[kind] = told
    return found


@cache
def _comments(module: ModuleType | None) -> dict[str, dict[str, str]]:
    """class -> field -> the comment at the end of its line. Nothing where there is no source to read."""
    try:
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        return {}
    lines = {
        token.start[0]: re.sub(r"\s*#?\s*(noqa|type: ignore|fmt:).*$", "", token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    return {
        one.name: {
            field.target.id: lines[field.end_lineno or field.lineno]
            for field in one.body
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and lines.get(field.end_lineno or field.lineno)
        }
        for one in ast.parse(source).body
        if isinstance(one, ast.ClassDef)
    }
