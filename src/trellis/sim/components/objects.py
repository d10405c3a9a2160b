"""The VPAs, HPAs, Hvpas, Buffers and LimitRanges of a variant, as the API server would hold them at the beginning.

The HPAs and VPAs that Hvpas own are created from their templates, as the live controller would create them. Where a
user's object has the name, that one stays and none is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.registry import BUFFER, HVPA, VPA
from trellis.api.resolve import resolve_hvpa
from trellis.base.errors import InvalidInput
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.hvpa.autoscalers import build_hpa_spec, build_vpa_spec

_KINDS: Final[Mapping[str, type[Any]]] = {
    VPA.name: VerticalPodAutoscaler,
    "LimitRange": LimitRange,
    "HorizontalPodAutoscaler": HorizontalPodAutoscaler,
    HVPA.name: Hvpa,
    BUFFER.name: Buffer,
}


class VariantObjects(msgspec.Struct, frozen=True):
    """The objects that size pods, bound that, or keep spare capacity for them."""

    vpas: tuple[VerticalPodAutoscaler, ...] = ()
    limits: tuple[LimitRange, ...] = ()
    hpas: tuple[HorizontalPodAutoscaler, ...] = ()
    hvpas: tuple[Hvpa, ...] = ()
    buffers: tuple[Buffer, ...] = ()


def read_objects(documents: Iterable[Mapping[str, Any]], begin: float) -> VariantObjects:
    """The objects of manifests, created at `begin`; `InvalidInput` for a kind that is not simulated, or a duplicate."""
    result: dict[type[Any], dict[ObjectKey, Any]] = {kind: {} for kind in _KINDS.values()}
    for document in documents:
        kind = _KINDS.get(str(document.get("kind", "")))
        if kind is None:
            raise InvalidInput(document.get("kind"), f"must be one of {', '.join(_KINDS)}")
        stored = _build_stored_object(convert_object(document, kind), begin)
        if key_of(stored) in result[kind]:
            raise InvalidInput(
                "/".join(key_of(stored)),
                f"must be unique: there are two objects of kind {kind.__name__} with this name",
            )
        result[kind][key_of(stored)] = stored
    return VariantObjects(*(tuple(result[kind].values()) for kind in _KINDS.values()))


def _build_stored_object(obj: Any, begin: float) -> Any:
    """An object as the API server stores it."""
    metadata = obj.metadata
    namespace = metadata.namespace or "default"
    stored = msgspec.structs.replace(
        metadata,
        namespace=namespace,
        uid=metadata.uid or f"{type(obj).__name__}/{namespace}/{metadata.name}",
        resource_version="1",
        generation=1,
        creation_timestamp=datetime.fromtimestamp(begin, UTC),
    )
    return msgspec.structs.replace(obj, metadata=stored)


def add_owned_autoscalers(policies: VariantObjects, begin: float) -> VariantObjects:
    """The objects of a variant, with those that its Hvpas create at the beginning."""
    made = read_objects(_build_owned_autoscalers(policies.hvpas), begin)
    vpas, hpas = (set(map(key_of, objects)) for objects in (policies.vpas, policies.hpas))
    return msgspec.structs.replace(
        policies,
        vpas=(*policies.vpas, *(vpa for vpa in made.vpas if key_of(vpa) not in vpas)),
        hpas=(*policies.hpas, *(hpa for hpa in made.hpas if key_of(hpa) not in hpas)),
    )


def _build_owned_autoscalers(hvpas: Iterable[Hvpa]) -> list[dict[str, Any]]:
    documents = []
    for hvpa in hvpas:
        meaning = resolve_hvpa(hvpa)
        if meaning.deploys_vpa:
            documents.append(_document(hvpa, VPA.api_version, VPA.name, build_vpa_spec(hvpa, meaning)))
        if meaning.deploys_hpa:
            documents.append(
                _document(hvpa, "autoscaling/v2", "HorizontalPodAutoscaler", build_hpa_spec(hvpa, meaning))
            )
    return documents


def _document(hvpa: Hvpa, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = hvpa.metadata
    owner = {"apiVersion": HVPA.api_version, "kind": HVPA.name, "name": metadata.name, "uid": metadata.uid}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec,
    }
