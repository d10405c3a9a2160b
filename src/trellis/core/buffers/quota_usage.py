"""What a pod uses of a ResourceQuota, and which quotas count it.

All that quotas count of pods, by the names under which they do (`PodUsageFunc` and `podMatchesScopeFunc` in Kubernetes
1.36): the number of pods, requests under both of their names, and limits where the pod has some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trellis.api.kube.placement import PodAffinity
from trellis.api.kube.pods import Container, PodSpec, ResourceRequirements
from trellis.api.kube.policies import ResourceQuota, ScopedSelectorRequirement
from trellis.base.quantities import NANOS_PER_UNIT
from trellis.core.fit.resources import compute_requests, read_overhead
from trellis.core.sizing import PodShape, QosClass

_ONE_POD: Final = {"pods": NANOS_PER_UNIT, "count/pods": NANOS_PER_UNIT}


class QuotaUsage(msgspec.Struct, frozen=True):
    """Nanos by the name that a quota has for them, and the scopes that the pod is in."""

    amounts: Mapping[str, int]
    best_effort: bool = False
    terminates: bool = False
    priority_class: str = ""
    crosses_namespaces: bool = False

    def is_counted_by(self, quota: ResourceQuota) -> bool:
        """Whether all scopes of a quota hold for the pod."""
        selector = quota.spec.scope_selector
        scoped = selector.match_expressions if selector is not None else ()
        named = (ScopedSelectorRequirement(scope, "Exists") for scope in quota.spec.scopes)
        return all(self._is_in(scope) for scope in (*named, *scoped))

    def _is_in(self, scope: ScopedSelectorRequirement) -> bool:
        match scope.scope_name:
            case "PriorityClass":
                return self._has_class(scope)
            case "BestEffort":
                return self.best_effort
            case "NotBestEffort":
                return not self.best_effort
            case "Terminating":
                return self.terminates
            case "NotTerminating":
                return not self.terminates
            case "CrossNamespacePodAffinity":
                return self.crosses_namespaces
            case _:
                # Scopes of other objects count no pods.
                return False

    def _has_class(self, scope: ScopedSelectorRequirement) -> bool:
        name = self.priority_class
        match scope.operator:
            case "In":
                return name in scope.values
            case "NotIn":
                return name not in scope.values
            case "DoesNotExist":
                return not name
            case _:
                return bool(name)


def count_quota_usage(spec: PodSpec) -> QuotaUsage:
    """The usage of one pod. Raises `InvalidQuantity` if an amount cannot be read."""
    overhead = read_overhead(spec)
    amounts = dict(_ONE_POD)
    for name, nanos in _add_overhead(compute_requests(spec, {}, {}), overhead, adds_resources=True).items():
        amounts[name] = amounts[f"requests.{name}"] = nanos
    for name, nanos in _add_overhead(
        compute_requests(_limits_as_requests(spec), {}, {}), overhead, adds_resources=False
    ).items():
        amounts[f"limits.{name}"] = nanos
    return QuotaUsage(
        amounts={name: nanos for name, nanos in amounts.items() if nanos > 0},
        best_effort=PodShape.from_spec(spec).qos is QosClass.BEST_EFFORT,
        terminates=spec.active_deadline_seconds is not None,
        priority_class=spec.priority_class_name,
        crosses_namespaces=_crosses_namespaces(spec),
    )


def _add_overhead(amounts: dict[str, int], overhead: Mapping[str, int], *, adds_resources: bool) -> dict[str, int]:
    """Add the overhead; unless `adds_resources`, only to resources that are present."""
    added = {name: nanos for name, nanos in overhead.items() if adds_resources or name in amounts}
    return amounts | {name: amounts.get(name, 0) + nanos for name, nanos in added.items()}


def _limits_as_requests(spec: PodSpec) -> PodSpec:
    """Limits add up as requests do; a container without one adds nothing."""
    resources = spec.resources
    return msgspec.structs.replace(
        spec,
        containers=_use_limits(spec.containers),
        init_containers=_use_limits(spec.init_containers),
        resources=ResourceRequirements(requests=resources.limits) if resources is not None else None,
    )


def _use_limits(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        msgspec.structs.replace(container, resources=ResourceRequirements(requests=container.resources.limits))
        for container in containers
    )


def _crosses_namespaces(spec: PodSpec) -> bool:
    affinity = spec.affinity
    return affinity is not None and (_reaches_out(affinity.pod_affinity) or _reaches_out(affinity.pod_anti_affinity))


def _reaches_out(rules: PodAffinity | None) -> bool:
    if rules is None:
        return False
    terms = (*rules.required, *(term.pod_affinity_term for term in rules.preferred))
    return any(term.namespaces or term.namespace_selector is not None for term in terms)
