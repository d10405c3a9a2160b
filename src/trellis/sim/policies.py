"""What do people ask for? The objects of a variant, as the API server would hold them at the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.hvpa import Hvpa
from trellis.api.kinds import BUFFER, HVPA, VPA
from trellis.api.kube.decode import convert_object
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import InvalidInput
from trellis.core.model.keys import Key, key_of

_KINDS: Final[Mapping[str, type[Any]]] = {
    VPA.name: VerticalPodAutoscaler,
    "LimitRange": LimitRange,
    "HorizontalPodAutoscaler": HorizontalPodAutoscaler,
    HVPA.name: Hvpa,
    BUFFER.name: Buffer,
}


class Policies(msgspec.Struct, frozen=True):
    """What sizes pods, what bounds that, and what keeps room for them."""

    vpas: tuple[VerticalPodAutoscaler, ...] = ()
    limits: tuple[LimitRange, ...] = ()
    hpas: tuple[HorizontalPodAutoscaler, ...] = ()
    hvpas: tuple[Hvpa, ...] = ()
    buffers: tuple[Buffer, ...] = ()


def read_policies(documents: Iterable[Mapping[str, Any]], begin: float) -> Policies:
    """The objects of manifests, made at `begin`; `InvalidInput` for a kind that has no say, or one object twice."""
    found: dict[type[Any], dict[Key, Any]] = {kind: {} for kind in _KINDS.values()}
    for document in documents:
        kind = _KINDS.get(str(document.get("kind", "")))
        if kind is None:
            raise InvalidInput(document.get("kind"), f"must be one of {', '.join(_KINDS)}")
        made = _made(convert_object(document, kind), begin)
        if key_of(made) in found[kind]:
            raise InvalidInput("/".join(key_of(made)), f"there are two objects of kind {kind.__name__} with this name")
        found[kind][key_of(made)] = made
    return Policies(*(tuple(found[kind].values()) for kind in _KINDS.values()))


def _made(found: Any, begin: float) -> Any:
    """An object as the API server stores it."""
    metadata = found.metadata
    namespace = metadata.namespace or "default"
    stored = msgspec.structs.replace(
        metadata,
        namespace=namespace,
        uid=metadata.uid or f"{type(found).__name__}/{namespace}/{metadata.name}",
        resource_version="1",
        generation=1,
        creation_timestamp=datetime.fromtimestamp(begin, UTC),
    )
    return msgspec.structs.replace(found, metadata=stored)
