"""Variants of a dump: as templates request, as its VPAs and Hvpas have it, and by recommenders.

HPAs scale and Buffers keep spare capacity in all variants, because neither says how large a pod is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.scaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec
from trellis.api.registry import BUFFER, HVPA, VPA
from trellis.api.resolve import DEFAULT_RECOMMENDER, FixedReplicas, PercentOfReplicas, resolve_buffer
from trellis.base.errors import UnreadableObject
from trellis.base.json_lines import encode_payload
from trellis.core.buffers import BufferSettings, find_skip_reason
from trellis.core.cluster.state import ClusterState
from trellis.core.hvpa.view import read_hvpa
from trellis.sim.components.hpa_metrics import find_unsupported
from trellis.sim.dump.component_settings import select_simulated_flags
from trellis.sim.dump.workloads import DumpedWorkload, DumpedWorkloads
from trellis.sim.fleet import Document, Variant
from trellis.sim.results import NotPlayedObjects

FIXED: Final = "fixed"
CURRENT: Final = "current"
HPA: Final = "HorizontalPodAutoscaler"
_SCALED: Final = ("Deployment", "StatefulSet")
_API_VERSIONS: Final = {"Job": "batch/v1", "CronJob": "batch/v1"}
_NO_TARGET: Final = "its target is not simulated"

# Workloads by namespace, kind and name as the dump has them.
_Played: TypeAlias = Mapping[tuple[str, str, str], DumpedWorkload]


class DumpedAutoscalers(msgspec.Struct, frozen=True):
    """The manifests that can be simulated. `hpas_of_hvpas` are the HPAs that write to the scales of Hvpas.

    `scaled` are the workloads whose count is scaled, by namespace and the name under which they are simulated.
    """

    vpas: tuple[Document, ...]
    hpas: tuple[Document, ...]
    hvpas: tuple[Document, ...]
    hpas_of_hvpas: tuple[Document, ...]
    buffers: tuple[Document, ...]
    scaled: frozenset[tuple[str, str]]


def find_autoscalers(
    collected: ClusterState, workloads: DumpedWorkloads, ledger: NotPlayedObjects, *, orders_nodes: bool
) -> DumpedAutoscalers:
    """All autoscalers of a dump; the ledger gets those that cannot be simulated. `orders_nodes`: it has node groups."""
    played = workloads.by_target()
    hvpas = dict(_hvpas(collected, played, ledger))
    hpas, hpas_of_hvpas = _hpas(collected, played, hvpas, ledger)
    scaled = [_read_reference(hpa, "scaleTargetRef") for hpa in hpas] + [
        _read_reference(hvpa, "targetRef") for hvpa in hvpas.values()
    ]
    return DumpedAutoscalers(
        tuple(_vpas(collected, played, ledger)),
        tuple(hpas),
        tuple(hvpas.values()),
        tuple(hpas_of_hvpas),
        tuple(_buffers(collected, played, ledger, orders_nodes=orders_nodes)),
        frozenset(scaled),
    )


def build_variants(
    collected: ClusterState, workloads: DumpedWorkloads, autoscalers: DumpedAutoscalers, recommenders: Sequence[str]
) -> tuple[Variant, ...]:
    """The variants, requests as written first."""
    settings = select_simulated_flags(collected)
    around = (*_limits(collected), *autoscalers.hpas, *autoscalers.buffers)
    sizes = (*autoscalers.vpas, *autoscalers.hvpas)
    variants = [Variant(FIXED, "requests as written", around, settings)]
    if sizes:
        title = f"Sizing by the dump's {' and '.join(_list_kinds(autoscalers))}"
        variants.append(Variant(CURRENT, title, (*around, *sizes, *autoscalers.hpas_of_hvpas), settings))
    chosen = tuple(recommenders) or (() if sizes else (DEFAULT_RECOMMENDER,))
    mode = "InPlaceOrRecreate" if collected.about.resizes_pods else "Recreate"
    for name in chosen:
        objects = (*around, *(_vpa(workload, name, mode) for workload in workloads.workloads))
        variants.append(Variant(name, f"A VPA for each workload ({name})", objects, settings))
    return tuple(variants)


def _list_kinds(autoscalers: DumpedAutoscalers) -> Iterator[str]:
    if autoscalers.vpas:
        yield "VPAs"
    if autoscalers.hvpas:
        yield "Hvpas"


def _limits(collected: ClusterState) -> Iterator[Document]:
    for limit_range in collected.limit_ranges:
        yield {"apiVersion": "v1", "kind": "LimitRange"} | _document(limit_range)


def _hpas(
    collected: ClusterState, played: _Played, hvpas: Mapping[tuple[str, str], Document], ledger: NotPlayedObjects
) -> tuple[list[Document], list[Document]]:
    """HPAs of workloads, and users' own HPAs of Hvpas; an Hvpa creates its others anew."""
    hpas_of_workloads: list[Document] = []
    hpas_of_hvpas: list[Document] = []
    for candidate in collected.hpas:
        ref, namespace = candidate.spec.scale_target_ref, candidate.metadata.namespace
        if _is_owned_by_hvpa(candidate):
            continue
        result = played.get((namespace, ref.kind, ref.name))
        is_played = result.kind in _SCALED if result is not None else (namespace, ref.name) in hvpas
        if not is_played or (result is None and ref.kind != HVPA.name):
            ledger.add(HPA, _NO_TARGET)
            continue
        hpa = _with_supported_metrics(candidate, ledger)
        if hpa is None:
            continue
        document = {"apiVersion": "autoscaling/v2", "kind": HPA} | _document(hpa, "status")
        if result is not None:
            document["spec"]["scaleTargetRef"] = _reference(result)
        (hpas_of_hvpas if result is None else hpas_of_workloads).append(document)
    return hpas_of_workloads, hpas_of_hvpas


def _with_supported_metrics(hpa: HorizontalPodAutoscaler, ledger: NotPlayedObjects) -> HorizontalPodAutoscaler | None:
    """An HPA with the metrics that can be simulated; None if there is none, and its target keeps its count."""
    metrics = hpa.spec.metrics
    supported = tuple(metric for metric in metrics if not find_unsupported(metric))
    if metrics and len(supported) < len(metrics):
        types = ", ".join(sorted({metric.type or "none" for metric in metrics if find_unsupported(metric)}))
        consequence = "it scales by its other metrics only" if supported else ("its target keeps its replicas")
        ledger.add(HPA, f"a dump has no values of metrics of type {types}: {consequence}")
        if not supported:
            return None
    return msgspec.structs.replace(hpa, spec=msgspec.structs.replace(hpa.spec, metrics=supported))


def _vpas(collected: ClusterState, played: _Played, ledger: NotPlayedObjects) -> Iterator[Document]:
    for vpa in collected.vpas:
        ref = vpa.spec.target_ref
        result = played.get((vpa.metadata.namespace, ref.kind or "", ref.name or ""))
        if _is_owned_by_hvpa(vpa):
            continue
        if result is None:
            ledger.add(VPA.name, _NO_TARGET)
            continue
        document = _document(vpa)
        document["spec"]["targetRef"] = _reference(result)
        yield document


def _hvpas(
    collected: ClusterState, played: _Played, ledger: NotPlayedObjects
) -> Iterator[tuple[tuple[str, str], Document]]:
    """Hvpas as they would begin: without a status, and without a count that an HPA wrote."""
    for hvpa in collected.hvpas:
        ref, metadata = hvpa.spec.target_ref, hvpa.metadata
        result = played.get((metadata.namespace, ref.kind or "", ref.name or ""))
        meaning, refused = read_hvpa(hvpa)
        if meaning is None:
            ledger.add(HVPA.name, f"refused: {refused}")
        elif result is None or result.kind not in _SCALED:
            ledger.add(HVPA.name, _NO_TARGET)
        else:
            document = _document(hvpa, "status")
            document["spec"]["targetRef"] = _reference(result)
            document["spec"].pop("replicas", None)
            _remove_unsupported_metrics(document, ledger)
            yield (metadata.namespace, metadata.name), document


def _remove_unsupported_metrics(document: dict[str, Any], ledger: NotPlayedObjects) -> None:
    """Keep the metrics in the HPA of an Hvpa that can be simulated; without any it scales by its VPA alone."""
    hpa = document["spec"].get("hpa") or {}
    spec = (hpa.get("template") or {}).get("spec") or {}
    written = spec.get("metrics") or []
    try:
        metrics = convert_object(spec, HorizontalPodAutoscalerSpec).metrics
    except UnreadableObject:
        metrics = ()
    supported = [text for text, metric in zip(written, metrics, strict=False) if not find_unsupported(metric)]
    if len(supported) == len(written):
        return
    consequence = "it scales by its other metrics only" if supported else "it scales by its VPA only"
    ledger.add(HVPA.name, f"a dump has no values of some metrics of its HPA: {consequence}")
    if supported:
        spec["metrics"] = supported
    else:
        document["spec"]["hpa"] = {"deploy": False}


def _buffers(
    collected: ClusterState, played: _Played, ledger: NotPlayedObjects, *, orders_nodes: bool
) -> Iterator[Document]:
    for buffer in collected.buffers:
        reason = _find_buffer_problem(buffer, played, orders_nodes=orders_nodes)
        if reason:
            ledger.add(BUFFER.name, reason)
            continue
        document, workload = _document(buffer, "status"), played.get(_read_target(buffer))
        if workload is not None:
            document["spec"]["targetRef"] = _reference(workload)
        yield document


def _find_buffer_problem(buffer: Buffer, played: _Played, *, orders_nodes: bool) -> str:
    """Why the capacity of a Buffer is not kept; "" if it is kept."""
    if not orders_nodes:
        return "the dump has no node groups that could be scaled up for it"
    meaning = resolve_buffer(buffer)
    skip_reason = find_skip_reason(meaning, BufferSettings())
    if skip_reason is not None:
        return str(skip_reason)
    if meaning.capacity is None:
        return "its capacity is invalid"
    needs_target = isinstance(meaning.capacity, FixedReplicas | PercentOfReplicas) and meaning.target is not None
    if needs_target and _read_target(buffer) not in played:
        return _NO_TARGET
    return ""


def _read_target(buffer: Buffer) -> tuple[str, str, str]:
    ref = buffer.spec.target_ref
    return (buffer.metadata.namespace, ref.kind or "", ref.name or "") if ref is not None else ("", "", "")


def _read_reference(document: Document, reference: str) -> tuple[str, str]:
    return document["metadata"]["namespace"], document["spec"][reference]["name"]


def _is_owned_by_hvpa(autoscaler: HorizontalPodAutoscaler | VerticalPodAutoscaler) -> bool:
    owner = autoscaler.metadata.controller
    return owner is not None and owner.kind == HVPA.name


def _document(stored: Any, *without: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(encode_payload(stored))
    return {name: value for name, value in document.items() if name not in without}


def _reference(workload: DumpedWorkload) -> Document:
    return {"apiVersion": _API_VERSIONS.get(workload.kind, "apps/v1"), "kind": workload.kind, "name": workload.name}


def _vpa(workload: DumpedWorkload, recommender: str, mode: str) -> Document:
    spec: dict[str, Any] = {"targetRef": _reference(workload), "updatePolicy": {"updateMode": mode}}
    if recommender != DEFAULT_RECOMMENDER:
        spec["recommenders"] = [{"name": recommender}]
    metadata = {"namespace": workload.target.namespace, "name": workload.name}
    return {"apiVersion": VPA.api_version, "kind": VPA.name, "metadata": metadata, "spec": spec}
