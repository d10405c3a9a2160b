"""Checks the namespace of an installation: quotas and LimitRanges that refuse its pods, PodSecurity, priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason, Severity
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.installation import Installation
from trellis.diagnosis.unread import Unread
from trellis.runtime.manager.settings import ADMISSION

QUOTA_REFUSES = Reason("QuotaRefuses", "A quota refuses pods of a component.", Severity.WARNING)
QUOTA_NEEDS_LIMITS = Reason(
    "QuotaNeedsLimits",
    "A quota on CPU limits refuses pods without a CPU limit, such as those of the components.",
    Severity.WARNING,
)
LIMIT_RANGE_REFUSES = Reason(
    "LimitRangeRefuses", "A LimitRange refuses pods of the size of a component.", Severity.WARNING
)
POD_SECURITY_UNKNOWN = Reason(
    "PodSecurityUnknown", "The PodSecurity level of a namespace is unknown.", Severity.WARNING
)
NAMESPACE_MISSING = Reason("NamespaceMissing", "The namespace to install into does not exist.", Severity.WARNING)
PRIORITY_CLASS_MISSING = Reason(
    "PriorityClassMissing", "The priority class that a component names does not exist.", Severity.ERROR
)
NO_PRIORITY = Reason(
    "NoPriority",
    "The admission controller has no priority class: pods of higher priority may displace it.",
    Severity.WARNING,
)

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_LEVELS: Final = ("privileged", "baseline", "restricted")
# The least that a replica of a component needs, as the shipped manifests request it.
_LEAST: Final = {"cpu": Fraction(50, 1000), "memory": Fraction(200 * 2**20)}


class NamespaceFacts(msgspec.Struct, frozen=True):
    """The namespace of an installation. `exists` is None if that is unknown.

    `is_chosen` is whether the user named it: one that was not is created with the installation.
    """

    name: str
    exists: bool | None = True
    labels: Mapping[str, str] = {}
    quotas: tuple[ResourceQuota, ...] | Unread = ()
    limit_ranges: tuple[LimitRange, ...] | Unread = ()
    priority_classes: frozenset[str] | Unread = frozenset()
    is_chosen: bool = False


def check_namespace(facts: NamespaceFacts, installation: Installation) -> ClusterCheck:
    """Whether pods of components may be created in the namespace."""
    name = f"namespace {facts.name}"
    unknown = tuple(
        item.to_unknown()
        for item in (facts.quotas, facts.limit_ranges, facts.priority_classes)
        if isinstance(item, Unread)
    )
    if facts.exists is False:
        if not facts.is_chosen:
            return ClusterCheck(name, "does not exist yet, and is created with the installation", unknown=unknown)
        missing = ClusterFinding(
            NAMESPACE_MISSING, facts.name, "does not exist", f"kubectl create namespace {facts.name}"
        )
        return ClusterCheck(name, "", (missing,), unknown)
    findings = [*_check_quotas(facts), *_check_limit_ranges(facts), *_check_security(facts)]
    findings += _check_priorities(facts, installation)
    level = facts.labels.get(_ENFORCE, "")
    security = f"PodSecurity {level}, which the pods meet" if level in _LEVELS else "no PodSecurity level"
    return ClusterCheck(name, f"{security}; no quota or LimitRange refuses the pods", tuple(findings), unknown)


def _check_quotas(facts: NamespaceFacts) -> Iterator[ClusterFinding]:
    if isinstance(facts.quotas, Unread):
        return
    defaults = _find_default_limits(facts)
    for quota in facts.quotas:
        label = f"ResourceQuota {facts.name}/{quota.metadata.name}"
        change = f"kubectl edit resourcequota -n {facts.name} {quota.metadata.name}"
        if "limits.cpu" in quota.status.hard and "cpu" not in defaults:
            yield ClusterFinding(
                QUOTA_NEEDS_LIMITS,
                label,
                "limits the sum of CPU limits: pods without a CPU limit are refused",
                "add a LimitRange with a default CPU limit, or set one for the components",
            )
        for resource, least in _LEAST.items():
            for key in (resource, f"requests.{resource}"):
                free = _find_free(quota, key)
                if free is not None and free < least:
                    yield ClusterFinding(QUOTA_REFUSES, label, f"{key} is used up", change)
        free_pods = _find_free(quota, "pods")
        if free_pods is not None and free_pods < 1:
            yield ClusterFinding(QUOTA_REFUSES, label, "pods is used up", change)


def _find_default_limits(facts: NamespaceFacts) -> Mapping[str, str]:
    if isinstance(facts.limit_ranges, Unread):
        return {"cpu": "unknown"}
    defaults: dict[str, str] = {}
    for limit_range in facts.limit_ranges:
        for item in limit_range.spec.limits:
            if item.type == "Container":
                defaults.update(item.default)
    return defaults


def _find_free(quota: ResourceQuota, key: str) -> Fraction | None:
    if key not in quota.status.hard:
        return None
    hard, used = _parse(quota.status.hard[key]), _parse(quota.status.used.get(key, "0"))
    return None if hard is None or used is None else hard - used


def _parse(text: str) -> Fraction | None:
    try:
        return Quantity.parse(text).exact()
    except InvalidQuantity:
        return None


def _check_limit_ranges(facts: NamespaceFacts) -> Iterator[ClusterFinding]:
    if isinstance(facts.limit_ranges, Unread):
        return
    for limit_range in facts.limit_ranges:
        for item in limit_range.spec.limits:
            if item.type not in ("Container", "Pod"):
                continue
            for resource, least in _LEAST.items():
                most = _parse(item.max[resource]) if resource in item.max else None
                if most is not None and most < least:
                    yield ClusterFinding(
                        LIMIT_RANGE_REFUSES,
                        f"LimitRange {facts.name}/{limit_range.metadata.name}",
                        f"allows {item.max[resource]} of {resource} at most for a {item.type.lower()}",
                        f"kubectl edit limitrange -n {facts.name} {limit_range.metadata.name}",
                    )


def _check_security(facts: NamespaceFacts) -> Iterator[ClusterFinding]:
    level = facts.labels.get(_ENFORCE)
    if level is not None and level not in _LEVELS:
        yield ClusterFinding(
            POD_SECURITY_UNKNOWN,
            f"namespace {facts.name}",
            f'"{level}" is no PodSecurity level: the API server treats it as restricted',
            f"kubectl label namespace {facts.name} --overwrite {_ENFORCE}=restricted",
        )


def _check_priorities(facts: NamespaceFacts, installation: Installation) -> Iterator[ClusterFinding]:
    classes = facts.priority_classes
    for workload in installation.workloads:
        if not workload.priority_class:
            if ADMISSION in workload.components:
                yield ClusterFinding(
                    NO_PRIORITY,
                    workload.label,
                    "has no priority class: on a full node other pods displace the webhook",
                    "set priorityClassName: system-cluster-critical",
                )
        elif not isinstance(classes, Unread) and workload.priority_class not in classes:
            yield ClusterFinding(
                PRIORITY_CLASS_MISSING,
                workload.label,
                f"names priority class {workload.priority_class}, which does not exist",
                "create it, or name another",
            )
