"""What does a JSON patch make of a pod? RFC 6902 as far as patches of pods use it: test, add, replace, remove.

A test that fails, or a place that is not there, refuses the patch as a whole, as the API server does.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from trellis.api.kube.meta import PodMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.base.errors import InvalidInput
from trellis.core.model.patches import PatchOp


def patched(pod: Pod, patch: Iterable[PatchOp]) -> Pod:
    """The pod after all operations on its metadata and spec; raises `InvalidInput` if one of them is refused."""
    document = msgspec.to_builtins({"metadata": pod.metadata, "spec": pod.spec}, builtin_types=(datetime,))
    for operation in patch:
        _apply(document, operation)
    try:
        metadata = msgspec.convert(document["metadata"], PodMeta)
        spec = msgspec.convert(document["spec"], PodSpec)
    except msgspec.ValidationError as error:
        raise InvalidInput(pod.metadata.name, f"the patch makes no pod of it: {error}") from error
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _apply(document: dict[str, Any], operation: PatchOp) -> None:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]]
    place: Any = document
    for part in parents:
        place = _child(place, part, operation)
    match operation.op:
        case "test":
            if _child(place, last, operation) != operation.value:
                raise InvalidInput(operation.path, f"is not {operation.value!r}")
        case "add" if isinstance(place, dict):
            # A patch may be applied to many pods, and what it adds is filled by what follows.
            place[last] = dict(operation.value) if isinstance(operation.value, dict) else operation.value
        case "replace" if isinstance(place, dict):
            _child(place, last, operation)
            place[last] = operation.value
        case "remove" if isinstance(place, dict):
            _child(place, last, operation)
            del place[last]
        case _:
            raise InvalidInput(operation.path, f'"{operation.op}" is not possible there')


def _child(place: Any, part: str, operation: PatchOp) -> Any:
    try:
        return place[int(part)] if isinstance(place, list | tuple) else place[part]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(operation.path, f'there is no "{part}"') from error
