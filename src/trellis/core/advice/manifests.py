"""Manifests that carry out advice: a strategic-merge patch for each workload, or a VerticalPodAutoscaler for it.

Only what changes is in a patch, so that it can be laid over whatever else is in a manifest; a limit that is to go is
null there. What cannot be patched that way is skipped, with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trellis.api.kinds.vpa import ANY_CONTAINER
from trellis.base.names import check_dns_label, check_dns_subdomain
from trellis.base.quantities import Quantity
from trellis.core.advice.policy import RESOURCES, AdvicePolicy, select_resource
from trellis.core.advice.results import ContainerAdvice, SurveyAdvice, WorkloadAdvice
from trellis.core.advice.sizes import ResourceAdvice
from trellis.core.advice.survey.model import ResourceAmount, SurveyedWorkload

ManifestDocument = dict[str, Any]

_DEFAULT_RECOMMENDER = "default"
# Where a kind has its pod template. A patch of any other kind would replace its list of containers as a whole, because
# only of these does the API server know how lists merge.
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}


class SkippedWorkload(msgspec.Struct, frozen=True):
    """A workload without a manifest, and why."""

    workload: SurveyedWorkload
    reason: str


class AdviceManifests(msgspec.Struct, frozen=True):
    """Objects by the workload they are for, and the workloads that have none."""

    objects: tuple[tuple[SurveyedWorkload, ManifestDocument], ...] = ()
    skipped: tuple[SkippedWorkload, ...] = ()


def build_patches(advised: SurveyAdvice) -> AdviceManifests:
    """A patch for each workload that should change."""
    objects, skipped = [], []
    for advice in advised.workloads:
        if not advice.is_change:
            continue
        reason = _find_name_problem(advice.surveyed) or _find_patch_problem(advice.surveyed)
        if reason:
            skipped.append(SkippedWorkload(advice.surveyed, reason))
        else:
            objects.append((advice.surveyed, _build_patch(advice)))
    return AdviceManifests(tuple(objects), tuple(skipped))


def build_vpas(advised: SurveyAdvice, update_mode: str = "Off") -> AdviceManifests:
    """A VerticalPodAutoscaler for each workload that has none."""
    workloads = [advice.surveyed for advice in advised.workloads]
    name_counts = Counter((workload.namespace, workload.name) for workload in workloads)
    objects, skipped = [], []
    for workload in workloads:
        reason = _find_name_problem(workload) or _find_vpa_problem(workload)
        if reason:
            skipped.append(SkippedWorkload(workload, reason))
            continue
        shared = name_counts[workload.namespace, workload.name] > 1
        name = f"{workload.name}-{workload.kind.lower()}" if shared else workload.name
        objects.append((workload, _build_vpa(advised, workload, name, update_mode)))
    return AdviceManifests(tuple(objects), tuple(skipped))


def convert_quantity(resource: str, amount: float) -> Quantity:
    """An amount the way manifests have it: millicores, and bytes with binary suffixes. Fractions are rounded up."""
    rounded = math.ceil(amount - 1e-9)
    return Quantity.from_milli(rounded) if resource == "cpu" else Quantity.from_units(rounded, binary=True)


def _find_name_problem(workload: SurveyedWorkload) -> str:
    """Names may come from files and metrics, and these end up in paths and manifests."""
    for field, problem in (
        ("its namespace", check_dns_label(workload.namespace)),
        ("its name", check_dns_subdomain(workload.name)),
        ("its kind", None if workload.kind.isalnum() and workload.api_version else "is not known"),
    ):
        if problem:
            return f"{field} {problem}"
    return ""


def _find_patch_problem(workload: SurveyedWorkload) -> str:
    if workload.kind == "Pod":
        return "no controller recreates this pod; change it where it is created"
    if workload.kind == "Job":
        return "the template of a Job is immutable; change it where the Job is created"
    if workload.kind not in _TEMPLATES:
        return f"a patch of a {workload.kind} would replace all its containers; change it where it is created"
    return ""


def _find_vpa_problem(workload: SurveyedWorkload) -> str:
    if workload.kind == "Pod":
        return "a VerticalPodAutoscaler needs pods with an owner"
    if workload.group:
        return f"{workload.members} Jobs have no owner that a VerticalPodAutoscaler can target"
    if workload.vpas:
        return f"it already has a VerticalPodAutoscaler: {workload.vpas[0]}"
    return ""


def _build_identity(api_version: str, kind: str, name: str, namespace: str) -> ManifestDocument:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def _build_patch(advice: WorkloadAdvice) -> ManifestDocument:
    workload = advice.surveyed
    containers: ManifestDocument = {}
    for field, is_sidecar in (("initContainers", True), ("containers", False)):
        changed = [
            container
            for container in advice.containers
            if container.is_change and container.surveyed.is_sidecar is is_sidecar
        ]
        if changed:
            containers[field] = [
                {"name": container.surveyed.name, "resources": _build_resources(container)} for container in changed
            ]
    nested = containers
    for field in reversed(_TEMPLATES[workload.kind]):
        nested = {field: nested}
    return _build_identity(workload.api_version, workload.kind, workload.name, workload.namespace) | nested


def build_resources(container: ContainerAdvice) -> ManifestDocument:
    """The resources of a container as advised, changed or not, without what is unknown."""
    changes = [(resource, container.get_resource(resource)) for resource in RESOURCES]
    sections = {
        "requests": {name: change.request for name, change in changes},
        "limits": {name: change.limit for name, change in changes},
    }
    known = {
        section: {name: str(convert_quantity(name, value)) for name, value in amounts.items() if not math.isnan(value)}
        for section, amounts in sections.items()
    }
    return {section: amounts for section, amounts in known.items() if amounts}


def _build_resources(container: ContainerAdvice) -> ManifestDocument:
    changes = [(resource, container.get_resource(resource)) for resource in RESOURCES]
    changed = [(resource, change) for resource, change in changes if change.is_change]
    resources = {
        "requests": {resource: str(convert_quantity(resource, change.request)) for resource, change in changed}
    }
    limits = dict(_build_limits(changed))
    return resources | ({"limits": limits} if limits else {})


def _build_limits(changed: list[tuple[str, ResourceAdvice]]) -> Iterator[tuple[str, str | None]]:
    for resource, change in changed:
        if not math.isnan(change.limit):
            yield resource, str(convert_quantity(resource, change.limit))
        elif not math.isnan(change.limit_before):
            yield resource, None


def _build_vpa(advised: SurveyAdvice, workload: SurveyedWorkload, name: str, update_mode: str) -> ManifestDocument:
    target = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    spec: ManifestDocument = {"targetRef": target, "updatePolicy": {"updateMode": update_mode}}
    allowed = _build_allowed(advised.policy)
    if allowed:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": ANY_CONTAINER, **allowed}]}
    recommender, parameters = advised.surveyed.recommender, dict(advised.parameters)
    if recommender != _DEFAULT_RECOMMENDER or parameters:
        spec["recommenders"] = [{"name": recommender, **({"parameters": parameters} if parameters else {})}]
    return _build_identity("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", name, workload.namespace) | {"spec": spec}


def _build_allowed(policy: AdvicePolicy) -> ManifestDocument:
    bounds = {"minAllowed": _format_amounts(policy.least), "maxAllowed": _format_amounts(policy.most)}
    return {field: amounts for field, amounts in bounds.items() if amounts}


def _format_amounts(amount: ResourceAmount) -> dict[str, str]:
    named = ((resource, select_resource(amount, resource)) for resource in RESOURCES)
    return {resource: str(convert_quantity(resource, value)) for resource, value in named if not math.isnan(value)}
