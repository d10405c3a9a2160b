"""Reads the values of an installation: files, then single assignments, over the defaults, as Helm merges them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.problems import INVALID, ValidationProblem
from trellis.api.schema.tree import build_schema_tree
from trellis.api.validation import SchemaValidator
from trellis.base.errors import InvalidInput
from trellis.base.yaml.documents import BrokenDocument, read_documents
from trellis.install.tree.evaluation import Context, compute
from trellis.install.values.declarations import InstallValues
from trellis.install.values.rules import FIXED_LABELS, LABEL_PATHS, RESERVED_SETTINGS, RULES

_DOT: Final = re.compile(r"(?<!\\)\.")


class InvalidValues(InvalidInput):
    """Values of an installation that cannot be used: each with its path, the value and the rule."""

    def __init__(self, problems: Iterable[ValidationProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("values", str(self.problems[0]))

    def __str__(self) -> str:
        """Every problem, one in a line."""
        noun = "value is" if len(self.problems) == 1 else "values are"
        return f"{len(self.problems)} {noun} refused:" + "".join(f"\n  {problem}" for problem in self.problems)


def default_values() -> dict[str, Any]:
    """The values that apply if none are given."""
    values: dict[str, Any] = msgspec.to_builtins(InstallValues())
    return values


def load_values(files: Iterable[Mapping[str, Any]] = (), assignments: Iterable[str] = ()) -> dict[str, Any]:
    """The values of an installation. Raises `InvalidValues` with everything that is wrong with them."""
    values = default_values()
    for document in files:
        values = merge(values, document)
    for assignment in assignments:
        values = merge(values, parse_assignment(assignment))
    problems = find_problems(values)
    if problems:
        raise InvalidValues(problems)
    return values


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One map over another, as Helm does it: maps are merged, null removes a key, all else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def parse_assignment(text: str) -> dict[str, Any]:
    """`image.tag=1.2` as a document. The value is YAML; a dot in a key has a backslash before it."""
    path, equals, written = text.partition("=")
    keys = [key.replace("\\.", ".") for key in _DOT.split(path)]
    if not equals or not all(keys):
        raise InvalidInput(text, "must be written as path=value, such as --set image.tag=1.2.3")
    value = _read_value(text, written)
    for key in reversed(keys):
        value = {key: value}
    document: dict[str, Any] = value
    return document


def _read_value(text: str, written: str) -> Any:
    if not written:
        return ""
    documents = read_documents(written)
    if not documents:  # `null`, which removes a default
        return None
    [document, *others] = documents
    if isinstance(document, BrokenDocument) or others:
        raise InvalidInput(text, "the value must be YAML, such as true, 2, text or [a, b]")
    return document.value


def read_values(name: str, text: str | bytes) -> dict[str, Any]:
    """The values of a file."""
    documents = []
    for document in read_documents(text):
        if isinstance(document, BrokenDocument):
            error = document.errors[0]
            raise InvalidInput(name, f"line {error.line}, column {error.column}: {error}") from error
        documents.append(document)
    if len(documents) > 1:
        raise InvalidInput(name, "must be one YAML document of values")
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        raise InvalidInput(name, "must be a YAML map of values")
    return value


def find_problems(values: Mapping[str, Any]) -> list[ValidationProblem]:
    """Everything that is wrong with complete values."""
    problems = SchemaValidator({}).check(build_schema_tree(InstallValues), dict(values), ())
    if problems:
        return problems
    for path in LABEL_PATHS:
        problems += [
            ValidationProblem((path, key), INVALID, "is a label of Trellis' own; use another key", key)
            for key in values[path]
            if key in FIXED_LABELS
        ]
    problems += [
        ValidationProblem(("configuration", key), INVALID, f"is not set here: {reason}", values["configuration"][key])
        for key, reason in RESERVED_SETTINGS.items()
        if key in values["configuration"]
    ]
    context = Context(values, name="trellis", namespace="", service="")
    for rule in RULES:
        if compute(rule.broken, context):
            keys = tuple(rule.path.split("."))
            problems.append(ValidationProblem(keys, INVALID, rule.message, context.find(rule.path)))
    return problems
