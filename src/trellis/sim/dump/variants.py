"""In which ways is the fleet of a dump sized? As templates ask, as its VPAs have it, and by recommenders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kinds import BUFFER, HVPA, VPA
from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.counted import counted
from trellis.core.model.collected import Collected
from trellis.core.model.recording import encode
from trellis.sim.collected_figures import known_flags
from trellis.sim.dump.workloads import Found
from trellis.sim.fleet import Document, Variant

FIXED: Final = "fixed"
CURRENT: Final = "current"

# Workloads by namespace, kind and name as the dump has them.
_Played: TypeAlias = Mapping[tuple[str, str, str], Found]


def variants_of(
    collected: Collected, found: Sequence[Found], recommenders: Sequence[str]
) -> tuple[tuple[Variant, ...], list[str]]:
    """The variants, and what could not be taken into them."""
    played = {(each.target.namespace, each.target.kind, each.target.name): each for each in found}
    around = (*_limits(collected), *_scalers(collected, played))
    vpas = list(_vpas(collected, played))
    notes = []
    if len(vpas) < len(collected.vpas):
        notes.append(
            f"left out, because their targets have no pods to play: {counted(len(collected.vpas) - len(vpas), 'VPA')}"
        )
    for kind, some in ((HVPA, len(collected.hvpas)), (BUFFER, len(collected.buffers))):
        if some:
            notes.append(f"left out, because not modelled: {counted(some, kind.name)}")
    settings, _ = known_flags(collected)
    variants = [Variant(FIXED, "requests as written", around, settings, keeps_counts=True)]
    if vpas:
        variants.append(Variant(CURRENT, "Sizing by its own VPAs", (*around, *vpas), settings, keeps_counts=True))
    wanted = tuple(recommenders) or (() if vpas else (DEFAULT_RECOMMENDER,))
    mode = "InPlaceOrRecreate" if collected.about.resizes_pods else "Recreate"
    for name in wanted:
        objects = (*around, *(_vpa(each, name, mode) for each in found))
        variants.append(Variant(name, f"VPA for all ({name})", objects, settings, keeps_counts=True))
    return tuple(variants), notes


def _limits(collected: Collected) -> Iterator[Document]:
    for each in collected.limit_ranges:
        yield {"apiVersion": "v1", "kind": "LimitRange"} | msgspec.json.decode(encode(each))


def _scalers(collected: Collected, played: _Played) -> Iterator[Document]:
    for each in collected.hpas:
        ref = each.spec.scale_target_ref
        found = played.get((each.metadata.namespace, ref.kind, ref.name))
        if found is not None:
            document = msgspec.json.decode(encode(each))
            document["spec"]["scaleTargetRef"] = _reference(found)
            yield {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"} | document


def _vpas(collected: Collected, played: _Played) -> Iterator[Document]:
    for each in collected.vpas:
        ref = each.spec.target_ref
        found = played.get((each.metadata.namespace, ref.kind or "", ref.name or ""))
        if found is not None:
            document = msgspec.json.decode(encode(each))
            document["spec"]["targetRef"] = _reference(found)
            yield document


def _reference(found: Found) -> Document:
    return {"apiVersion": "apps/v1", "kind": found.kind, "name": found.name}


def _vpa(found: Found, recommender: str, mode: str) -> Document:
    spec: dict[str, Any] = {"targetRef": _reference(found), "updatePolicy": {"updateMode": mode}}
    if recommender != DEFAULT_RECOMMENDER:
        spec["recommenders"] = [{"name": recommender}]
    metadata = {"namespace": found.target.namespace, "name": found.name}
    return {"apiVersion": VPA.api_version, "kind": VPA.name, "metadata": metadata, "spec": spec}
