"""A validator of the part of JSON Schema that our schemas use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def find_errors(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[str]:
    """What is wrong with a value, by its path."""
    if "$ref" in schema:
        yield from find_errors(value, root["definitions"][schema["$ref"].rpartition("/")[2]], root, path)
    names = schema.get("type", [])
    if names and not any(_is_of_type(value, name) for name in ([names] if isinstance(names, str) else names)):
        yield f"{path}: must be {names}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{path}: must be {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: must be one of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path}: must match {schema['pattern']}"
    if "anyOf" in schema and all(list(find_errors(value, option, root, path)) for option in schema["anyOf"]):
        yield f"{path}: matches no option"
    for rule in schema.get("allOf", ()):
        if not list(find_errors(value, rule["if"], root, path)):
            yield from find_errors(value, rule["then"], root, path)
    if isinstance(value, dict):
        yield from _find_errors_of_members(value, schema, root, path)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from find_errors(item, schema["items"], root, f"{path}[{number}]")


def _find_errors_of_members(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], path: str
) -> Iterator[str]:
    yield from (f"{path}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    others = schema.get("additionalProperties", True)
    for name, member in value.items():
        known = schema.get("properties", {}).get(name)
        if known is not None:
            yield from find_errors(member, known, root, f"{path}.{name}")
        elif isinstance(others, dict):
            yield from find_errors(member, others, root, f"{path}.{name}")
        elif not others:
            yield f"{path}: {name} is unknown"


def _is_of_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
