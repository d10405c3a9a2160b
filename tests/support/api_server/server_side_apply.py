"""Server-side apply of a status, as an API server does it by force: owners of leaves, and what goes with its owner.

Conditions are keyed by type, and each of their fields is a leaf; every other field of a status is one leaf.
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
Leaf = tuple[str, ...]


def applied_status(document: Document, manager: str, status_patch: Document) -> Document:
    """The object after a manager has applied this status."""
    owned = _owned(document)
    before, values, applied = owned.pop(manager, set()), _leaves(document.get("status", {})), _leaves(status_patch)
    for leaf in before - applied.keys():
        if not any(leaf in others for others in owned.values()):
            values.pop(leaf, None)
    for leaf, value in applied.items():
        if values.get(leaf) != value:
            for others in owned.values():
                others.discard(leaf)
        values[leaf] = value
    if applied:
        owned[manager] = set(applied)
    status = _status(values)
    for condition in status.get("conditions", []):
        assert "status" in condition, f"a condition is left without a status: {condition}"
    entries = [_entry(name, leaves) for name, leaves in owned.items() if leaves]
    return {**document, "metadata": {**document["metadata"], "managedFields": entries}, "status": status}


def _leaves(status: Document) -> dict[Leaf, Any]:
    result: dict[Leaf, Any] = {(name,): value for name, value in status.items() if name != "conditions"}
    for condition in status.get("conditions", []):
        result |= {("conditions", condition["type"], name): value for name, value in condition.items()}
    return result


def _status(values: dict[Leaf, Any]) -> Document:
    status: Document = {}
    conditions: dict[str, Document] = {}
    for leaf, value in values.items():
        if len(leaf) == 1:
            status[leaf[0]] = value
        else:
            conditions.setdefault(leaf[1], {})[leaf[2]] = value
    return {**status, "conditions": list(conditions.values())} if conditions else status


def _owned(document: Document) -> dict[str, set[Leaf]]:
    owned: dict[str, set[Leaf]] = {}
    for entry in document["metadata"].get("managedFields", []):
        leaves: set[Leaf] = set()
        for name, below in entry["fieldsV1"]["f:status"].items():
            if name != "f:conditions":
                leaves.add((name.removeprefix("f:"),))
                continue
            for key, fields in below.items():
                type_ = key.removeprefix('k:{"type":"').removesuffix('"}')
                leaves |= {("conditions", type_, field.removeprefix("f:")) for field in fields if field != "."}
        owned[entry["manager"]] = leaves
    return owned


def _entry(manager: str, leaves: set[Leaf]) -> Document:
    status: Document = {}
    for leaf in sorted(leaves):
        if len(leaf) == 1:
            status[f"f:{leaf[0]}"] = {}
        else:
            key = f'k:{{"type":"{leaf[1]}"}}'
            status.setdefault("f:conditions", {}).setdefault(key, {".": {}})[f"f:{leaf[2]}"] = {}
    fields = {"f:status": status}
    return {"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": fields}
