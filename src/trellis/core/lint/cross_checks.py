"""Checks across objects: manifests that are right one by one and wrong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trellis.api.kinds.vpa import ANY_CONTAINER
from trellis.api.problems import SUSPICIOUS, Path
from trellis.api.registry import BUFFER, HVPA, VPA, Kind
from trellis.api.resolve import BUILT_IN_RECOMMENDERS, EffectiveVpa, UpdateMode, reaches_pods, resolve_hvpa, resolve_vpa
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
from trellis.core.lint.manifests import Manifest
from trellis.core.lint.workloads import WorkloadIndex, WorkloadManifest, read_scaled_resources

_TARGET: Path = ("spec", "targetRef")


class TrellisObject(msgspec.Struct, frozen=True):
    """An object of one of our kinds; `decoded` is None where its types are wrong."""

    manifest: Manifest
    kind: Kind
    decoded: Any

    @property
    def target(self) -> tuple[str, str] | None:
        """Kind and name of what it is about."""
        reference = getattr(self.decoded.spec, "target_ref", None) if self.decoded is not None else None
        return (reference.kind, reference.name) if reference is not None and reference.name else None


def find_conflicts(objects: list[TrellisObject], workloads: WorkloadIndex) -> Iterator[Finding]:
    """Everything that only shows when the objects are seen together."""
    yield from find_duplicates(objects)
    yield from find_rival_autoscalers(objects)
    yield from find_hpa_conflicts(objects, workloads)
    yield from find_missing_totals(objects)
    for ours in objects:
        yield from find_unknown_names(ours, workloads)
        yield from find_written_replicas(ours)


def find_duplicates(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """Two documents that are one object to the API server.

    Directories are taken for environments: the same object in `prod/` and in `staging/` is no mistake.
    """
    first: dict[tuple[str, ...], Manifest] = {}
    for ours in objects:
        manifest = ours.manifest
        directory = manifest.file.rpartition("/")[0]
        key = (directory, ours.kind.name, manifest.namespace, manifest.name)
        earlier = first.setdefault(key, manifest)
        if earlier is not manifest and manifest.name:
            line, _ = earlier.document.find_position(earlier.place)
            where = f"{earlier.file}:{line}"
            yield manifest.finding(
                DUPLICATE_OBJECT, f"{manifest.title} is there already, at {where}", ("metadata", "name")
            )


def _by_target(objects: Iterable[TrellisObject]) -> dict[tuple[str, str, str], list[TrellisObject]]:
    """VPAs and Hvpas by namespace, kind and name of what they size."""
    found: dict[tuple[str, str, str], list[TrellisObject]] = defaultdict(list)
    for ours in objects:
        if ours.kind in (VPA, HVPA) and ours.target is not None:
            found[ours.manifest.namespace, *ours.target].append(ours)
    return found


def find_rival_autoscalers(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """Two of ours that size the same pods: only one of them governs."""
    for rivals in _by_target(objects).values():
        for ours in rivals[1:]:
            twins = ours.manifest.title == rivals[0].manifest.title
            verdict = None if twins else _describe_rivalry(rivals[0], ours)
            if verdict:
                yield ours.manifest.finding(TWO_AUTOSCALERS, verdict, _TARGET)


def _describe_rivalry(one: TrellisObject, other: TrellisObject) -> str | None:
    """What happens to two autoscalers with one target; None where they get along."""
    title = one.manifest.title
    if one.kind is other.kind is VPA and reaches_pods(one.decoded) is not reaches_pods(other.decoded):
        return f"{title} has the same target: the one that acts governs, the one in mode Off gets no recommendation"
    if one.kind is other.kind:
        return f"{title} has the same target: the older of the two governs, the other does nothing"
    vpa = one if one.kind is VPA else other
    if resolve_vpa(vpa.decoded).mode is UpdateMode.OFF:
        return None  # it is the source of the Hvpa's recommendations
    return f"{title} has the same target: an Hvpa yields to a VPA that is not in mode Off"


def find_missing_totals(objects: Iterable[TrellisObject]) -> Iterator[Finding]:
    """An Hvpa that goes by a recommender of others, which knows nothing of whole workloads."""
    for group in _by_target(objects).values():
        hvpas = [ours for ours in group if ours.kind is HVPA]
        for hvpa in hvpas:
            spec = resolve_hvpa(hvpa.decoded)
            named = spec.vpa_spec.get("recommenders") if spec.deploys_vpa else None
            for entry in named if isinstance(named, list) else ():
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and name not in BUILT_IN_RECOMMENDERS:
                    place = ("spec", "vpa", "template", "spec", "recommenders")
                    yield hvpa.manifest.finding(TOTALS_NEEDED, _needs_totals(name, hvpa), place)
        users = [hvpa for hvpa in hvpas if not resolve_hvpa(hvpa.decoded).deploys_vpa]
        for ours in group if users else ():
            vpa = resolve_vpa(ours.decoded) if ours.kind is VPA else None
            if vpa is not None and vpa.mode is UpdateMode.OFF and vpa.recommender not in BUILT_IN_RECOMMENDERS:
                message = _needs_totals(vpa.recommender, users[0])
                yield ours.manifest.finding(TOTALS_NEEDED, message, ("spec", "recommenders"))


def _needs_totals(recommender: str, hvpa: TrellisObject) -> str:
    return (
        f'the recommender "{recommender}" does not come with Trellis and says nothing of whole workloads: '
        f"{hvpa.manifest.title} follows it only where trellis recommender runs beside it, "
        "and else holds its first total (NoTotals)"
    )


def find_hpa_conflicts(objects: Iterable[TrellisObject], workloads: WorkloadIndex) -> Iterator[Finding]:
    """An HPA that scales by the resource that one of ours sizes: each undoes the other's work."""
    by_target = _by_target(objects)
    for hpa in workloads.hpas:
        scaled = read_scaled_resources(hpa)
        if scaled is None:
            continue
        target, resources = scaled
        for ours in by_target.get((hpa.namespace, *target), ()):
            if ours.kind is HVPA:
                message = f"{hpa.title} scales the same target: point it at the Hvpa instead, or the Hvpa yields"
                yield ours.manifest.finding(TWO_AUTOSCALERS, message, _TARGET)
                continue
            shared = sorted(resources & list_sized_resources(resolve_vpa(ours.decoded)))
            if shared:
                what = " and ".join(shared)
                message = f"{hpa.title} scales the same target by {what}, which this VPA changes: each undoes the other"
                yield ours.manifest.finding(TWO_AUTOSCALERS, message, _TARGET)


def list_sized_resources(vpa: EffectiveVpa) -> set[str]:
    """The resources whose requests the VPA changes on any container."""
    if vpa.mode is UpdateMode.OFF:
        return set()
    containers = (*vpa.containers.values(), vpa.container(ANY_CONTAINER))
    return {resource for container in containers if container.scaled for resource in container.controlled}


def find_unknown_names(ours: TrellisObject, workloads: WorkloadIndex) -> Iterator[Finding]:
    """Names in an object that its workload, or the set, does not know."""
    if ours.target is None or ours.kind not in (VPA, HVPA, BUFFER):
        return
    kind, name = ours.target
    namespace = ours.manifest.namespace
    workload = workloads.find(namespace, kind, name)
    if workload is None:
        guess = suggest_name(name, workloads.names(namespace, kind))
        if guess is not None and guess != name:
            message = f'there is no {kind} "{name}" among the objects checked (did you mean "{guess}"?)'
            yield ours.manifest.finding(NO_SUCH_TARGET, message, (*_TARGET, "name"))
    elif ours.kind is VPA:
        yield from _containers(ours, workload)
        yield from _unprobed(ours, workload)


def find_written_replicas(ours: TrellisObject) -> Iterator[Finding]:
    """A manifest that sets what an HPA writes takes its wish back with every apply, and is a wish of its own."""
    if ours.kind is HVPA and ours.decoded is not None and ours.decoded.spec.replicas is not None:
        message = "is written by an HPA through the object's scale: leave it out of manifests"
        yield ours.manifest.finding(SUSPICIOUS, message, ("spec", "replicas"))


def _containers(ours: TrellisObject, workload: WorkloadManifest) -> Iterator[Finding]:
    policy = ours.decoded.spec.resource_policy
    for index, container in enumerate(policy.container_policies or () if policy else ()):
        name = container.container_name
        if name and name != ANY_CONTAINER and name not in workload.names:
            guess = suggest_name(name, workload.names)
            hint = f' (did you mean "{guess}"?)' if guess else f": it has {', '.join(workload.names)}"
            message = f'{workload.kind} {workload.name} has no container "{name}"{hint}'
            path = ("spec", "resourcePolicy", "containerPolicies", index, "containerName")
            yield ours.manifest.finding(NO_SUCH_CONTAINER, message, path)


def _unprobed(ours: TrellisObject, workload: WorkloadManifest) -> Iterator[Finding]:
    """Without a probe a container is Ready as soon as it runs, and the boost ends before the start does."""
    vpa = resolve_vpa(ours.decoded)
    boosted = [container for container in workload.containers if vpa.container(container.name).boost is not None]
    bare = [c.name for c in boosted if c.readiness_probe is None and c.startup_probe is None]
    if bare:
        listed = ", ".join(bare)
        noun = "container" if len(bare) == 1 else "containers"
        verb = "has" if len(bare) == 1 else "have"
        message = (
            f"the boosted {noun} {listed} of {workload.kind} {workload.name} {verb} neither a readiness nor a startup "
            "probe: without one a container is Ready as soon as it runs, and the boost ends too early"
        )
        path = ("spec", "startupBoost") if ours.decoded.spec.startup_boost is not None else ("spec", "resourcePolicy")
        yield ours.manifest.finding(NO_PROBE, message, path)
