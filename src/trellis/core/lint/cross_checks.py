"""Checks across objects: manifests that are right one by one and wrong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trellis.api.kinds.vpa import ANY_CONTAINER
from trellis.api.problems import SUSPICIOUS, Path
from trellis.api.registry import BUFFER, HVPA, VPA
from trellis.api.resolve import (
    BUILT_IN_RECOMMENDERS,
    EffectiveVpa,
    UpdateMode,
    is_applied_to_pods,
    resolve_hvpa,
    resolve_vpa,
)
from trellis.base.names import suggest_name
from trellis.core.lint.findings import (
    DUPLICATE_OBJECT,
    NO_PROBE,
    NO_SUCH_CONTAINER,
    NO_SUCH_TARGET,
    TOTALS_NEEDED,
    TWO_AUTOSCALERS,
    Finding,
)
from trellis.core.lint.formats import KnownKind
from trellis.core.lint.manifests import Manifest
from trellis.core.lint.workloads import WorkloadIndex, WorkloadManifest, read_scaled_resources

_TARGET: Path = ("spec", "targetRef")


class TrellisObject(msgspec.Struct, frozen=True):
    """An object of one of our kinds; `decoded` is None where its types are wrong."""

    manifest: Manifest
    kind: KnownKind
    decoded: Any

    @property
    def target(self) -> tuple[str, str] | None:
        """Kind and name of the object's target."""
        reference = getattr(self.decoded.spec, "target_ref", None) if self.decoded is not None else None
        return (reference.kind, reference.name) if reference is not None and reference.name else None


def find_conflicts(objects: list[TrellisObject], workloads: WorkloadIndex) -> Iterator[Finding]:
    """All findings about relations between objects."""
    yield from find_duplicates(objects)
    yield from find_rival_autoscalers(objects)
    yield from find_hpa_conflicts(objects, workloads)
    yield from find_missing_totals(objects)
    for trellis_object in objects:
        yield from find_unknown_names(trellis_object, workloads)
        yield from find_written_replicas(trellis_object)


def find_duplicates(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """Documents that describe the same object.

    Directories count as environments: the same object in `prod/` and in `staging/` is no mistake.
    """
    first: dict[tuple[str, ...], Manifest] = {}
    for trellis_object in objects:
        manifest = trellis_object.manifest
        directory = manifest.file.rpartition("/")[0]
        key = (directory, trellis_object.kind.name, manifest.namespace, manifest.name)
        earlier = first.setdefault(key, manifest)
        if earlier is not manifest and manifest.name:
            line, _ = earlier.document.find_position(earlier.base_path)
            where = f"{earlier.file}:{line}"
            yield manifest.build_finding(
                DUPLICATE_OBJECT, f"{manifest.title} already exists, at {where}", ("metadata", "name")
            )


def _group_by_target(objects: Iterable[TrellisObject]) -> dict[tuple[str, str, str], list[TrellisObject]]:
    """VPAs and Hvpas by namespace, kind and name of their target."""
    by_target: dict[tuple[str, str, str], list[TrellisObject]] = defaultdict(list)
    for trellis_object in objects:
        if trellis_object.kind in (VPA, HVPA) and trellis_object.target is not None:
            by_target[trellis_object.manifest.namespace, *trellis_object.target].append(trellis_object)
    return by_target


def find_rival_autoscalers(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """VPAs and Hvpas with the same target: only one of them governs its pods."""
    for rivals in _group_by_target(objects).values():
        for trellis_object in rivals[1:]:
            twins = trellis_object.manifest.title == rivals[0].manifest.title
            verdict = None if twins else _describe_rivalry(rivals[0], trellis_object)
            if verdict:
                yield trellis_object.manifest.build_finding(TWO_AUTOSCALERS, verdict, _TARGET)


def _describe_rivalry(first: TrellisObject, second: TrellisObject) -> str | None:
    """The conflict between two autoscalers with one target, or None."""
    title = first.manifest.title
    if first.kind is second.kind is VPA and is_applied_to_pods(first.decoded) is not is_applied_to_pods(second.decoded):
        return (
            f"{title} has the same target: the VPA in another mode than Off governs the pods, and the one "
            "in mode Off gets no recommendation"
        )
    if first.kind is second.kind:
        return f"{title} has the same target: the older VPA governs the pods, and the other has no effect"
    vpa = first if first.kind is VPA else second
    if resolve_vpa(vpa.decoded).mode is UpdateMode.OFF:
        return None  # it is the source of the Hvpa's recommendations
    return f"{title} has the same target: an Hvpa does not act beside a VPA that is not in mode Off"


def find_missing_totals(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """Hvpas on the VPA of a third-party recommender, which publishes no totals of whole workloads."""
    for group in _group_by_target(objects).values():
        hvpas = [ours for ours in group if ours.kind is HVPA]
        for hvpa in hvpas:
            spec = resolve_hvpa(hvpa.decoded)
            named = spec.vpa_spec.get("recommenders") if spec.deploys_vpa else None
            for entry in named if isinstance(named, list) else ():
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and name not in BUILT_IN_RECOMMENDERS:
                    place = ("spec", "vpa", "template", "spec", "recommenders")
                    yield hvpa.manifest.build_finding(TOTALS_NEEDED, _describe_missing_totals(name, hvpa), place)
        users = [hvpa for hvpa in hvpas if not resolve_hvpa(hvpa.decoded).deploys_vpa]
        for trellis_object in group if users else ():
            vpa = resolve_vpa(trellis_object.decoded) if trellis_object.kind is VPA else None
            if vpa is not None and vpa.mode is UpdateMode.OFF and vpa.recommender not in BUILT_IN_RECOMMENDERS:
                message = _describe_missing_totals(vpa.recommender, users[0])
                yield trellis_object.manifest.build_finding(TOTALS_NEEDED, message, ("spec", "recommenders"))


def _describe_missing_totals(recommender: str, hvpa: TrellisObject) -> str:
    return (
        f'the recommender "{recommender}" is not part of Trellis and publishes no totals: '
        f"{hvpa.manifest.title} follows it only if trellis recommender runs too, and otherwise keeps "
        "its first total (NoTotals)"
    )


def find_hpa_conflicts(objects: Iterable[TrellisObject], workloads: WorkloadIndex) -> Iterator[Finding]:
    """HPAs that scale by a resource that a VPA or Hvpa sizes: each undoes the other's changes."""
    by_target = _group_by_target(objects)
    for hpa in workloads.hpas:
        scaled = read_scaled_resources(hpa)
        if scaled is None:
            continue
        target, resources = scaled
        for trellis_object in by_target.get((hpa.namespace, *target), ()):
            if trellis_object.kind is HVPA:
                message = (
                    f"{hpa.title} scales the same target: let it target the Hvpa instead, or the Hvpa does not act"
                )
                yield trellis_object.manifest.build_finding(TWO_AUTOSCALERS, message, _TARGET)
                continue
            shared = sorted(resources & list_sized_resources(resolve_vpa(trellis_object.decoded)))
            if shared:
                names = " and ".join(shared)
                message = (
                    f"{hpa.title} scales the same target by {names}, which this VPA changes: each undoes the other"
                )
                yield trellis_object.manifest.build_finding(TWO_AUTOSCALERS, message, _TARGET)


def list_sized_resources(vpa: EffectiveVpa) -> set[str]:
    """The resources whose requests the VPA changes on any container."""
    if vpa.mode is UpdateMode.OFF:
        return set()
    containers = (*vpa.containers.values(), vpa.get_container(ANY_CONTAINER))
    return {resource for container in containers if container.is_scaled for resource in container.controlled}


def find_unknown_names(trellis_object: TrellisObject, workloads: WorkloadIndex) -> Iterator[Finding]:
    """Names in an object that do not exist in its workload or among the manifests."""
    if trellis_object.target is None or trellis_object.kind not in (VPA, HVPA, BUFFER):
        return
    kind, name = trellis_object.target
    namespace = trellis_object.manifest.namespace
    workload = workloads.find(namespace, kind, name)
    if workload is None:
        guess = suggest_name(name, workloads.list_names(namespace, kind))
        if guess is not None and guess != name:
            message = f'there is no {kind} "{name}" among the objects checked (did you mean "{guess}"?)'
            yield trellis_object.manifest.build_finding(NO_SUCH_TARGET, message, (*_TARGET, "name"))
    elif trellis_object.kind is VPA:
        yield from _find_unknown_containers(trellis_object, workload)
        yield from _find_boosts_without_probe(trellis_object, workload)


def find_written_replicas(trellis_object: TrellisObject) -> Iterator[Finding]:
    """Manifests that set `spec.replicas` of an Hvpa: each apply overwrites the HPA's count and counts as demand."""
    if (
        trellis_object.kind is HVPA
        and trellis_object.decoded is not None
        and trellis_object.decoded.spec.replicas is not None
    ):
        message = "is written by an HPA through the scale subresource: leave it out of manifests"
        yield trellis_object.manifest.build_finding(SUSPICIOUS, message, ("spec", "replicas"))


def _find_unknown_containers(trellis_object: TrellisObject, workload: WorkloadManifest) -> Iterator[Finding]:
    policy = trellis_object.decoded.spec.resource_policy
    for index, container in enumerate(policy.container_policies or () if policy else ()):
        name = container.container_name
        if name and name != ANY_CONTAINER and name not in workload.names:
            guess = suggest_name(name, workload.names)
            hint = f' (did you mean "{guess}"?)' if guess else f": it has {', '.join(workload.names)}"
            message = f'{workload.kind} {workload.name} has no container "{name}"{hint}'
            path = ("spec", "resourcePolicy", "containerPolicies", index, "containerName")
            yield trellis_object.manifest.build_finding(NO_SUCH_CONTAINER, message, path)


def _find_boosts_without_probe(trellis_object: TrellisObject, workload: WorkloadManifest) -> Iterator[Finding]:
    """Without a probe a container is Ready as soon as it runs, and the boost ends before the start does."""
    vpa = resolve_vpa(trellis_object.decoded)
    boosted = [container for container in workload.containers if vpa.get_container(container.name).boost is not None]
    without_probe = [c.name for c in boosted if c.readiness_probe is None and c.startup_probe is None]
    if without_probe:
        listed = ", ".join(without_probe)
        noun = "container" if len(without_probe) == 1 else "containers"
        verb = "has" if len(without_probe) == 1 else "have"
        message = (
            f"the boosted {noun} {listed} of {workload.kind} {workload.name} {verb} neither a readiness nor a startup "
            "probe: without one a container is Ready as soon as it runs, and the boost ends too early"
        )
        path = (
            ("spec", "startupBoost")
            if trellis_object.decoded.spec.startup_boost is not None
            else ("spec", "resourcePolicy")
        )
        yield trellis_object.manifest.build_finding(NO_PROBE, message, path)
