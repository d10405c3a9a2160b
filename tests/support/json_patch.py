"""RFC 6902 in the smallest form that tests need: what a JSON patch makes of a document, written apart from ours."""

from __future__ import annotations

import copy
from typing import Any

import msgspec


class PatchRefused(Exception):
    """A patch that the API server would answer with 422."""


def apply_patch(document: Any, operations: Any) -> Any:
    """The document after all operations; they go through JSON first, as on the wire."""
    result = copy.deepcopy(document)
    for operation in msgspec.json.decode(msgspec.json.encode(operations)):
        _apply(result, operation)
    return result


def _apply(document: Any, operation: dict[str, Any]) -> None:
    assert set(operation) == ({"op", "path"} if operation["op"] == "remove" else {"op", "path", "value"})
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].removeprefix("/").split("/")
    ]
    place = document
    for part in parents:
        place = _child(place, part)
    match operation["op"]:
        case "test":
            if _child(place, last) != operation["value"]:
                raise PatchRefused(f"{operation['path']} is not {operation['value']!r}")
        case "add":
            assert isinstance(place, dict)
            place[last] = operation["value"]
        case "remove":
            _child(place, last)
            del place[last]
        case unknown:
            raise AssertionError(unknown)


def _child(place: Any, part: str) -> Any:
    try:
        return place[int(part)] if isinstance(place, list) else place[part]
    except (KeyError, IndexError, TypeError) as error:
        raise PatchRefused(f"there is no {part}") from error
