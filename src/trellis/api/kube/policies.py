"""Policies: PodDisruptionBudget, LimitRange and ResourceQuota."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trellis.api.kube.meta import Condition, KubeObject, LabelSelector
from trellis.api.kube.slices import NOTHING, IntOrString, Quantities, Slice, Time

_NO_TIMES: Final[Mapping[str, Time]] = MappingProxyType({})


class PodDisruptionBudgetSpec(Slice, frozen=True):
    """In policy/v1 an empty selector matches every pod of the namespace, and an absent one none."""

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Slice, frozen=True):
    """`disruptions_allowed` holds only if `observed_generation` is the object's generation.

    `disrupted_pods` are evictions under way: granted, but not yet seen as a deletion.
    """

    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time] = _NO_TIMES
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(KubeObject, frozen=True):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class LimitRangeItem(Slice, frozen=True):
    """Bounds for one Container, Pod or claim; `default` is the limit a container without one gets."""

    type: str = ""
    max: Quantities = NOTHING
    min: Quantities = NOTHING
    default: Quantities = NOTHING
    default_request: Quantities = NOTHING
    max_limit_request_ratio: Quantities = NOTHING


class LimitRangeSpec(Slice, frozen=True):
    """All bounds of one LimitRange; a namespace may have several."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(KubeObject, frozen=True):
    """Bounds for every new pod of a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class ScopedSelectorRequirement(Slice, frozen=True):
    """A quota counts only pods in this scope, such as a set of priority classes."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Slice, frozen=True):
    """All of it must hold."""

    match_expressions: tuple[ScopedSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Slice, frozen=True):
    """What a namespace may use, and which pods count."""

    hard: Quantities = NOTHING
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Slice, frozen=True):
    """What is enforced and used now; `hard` may lag behind the spec."""

    hard: Quantities = NOTHING
    used: Quantities = NOTHING


class ResourceQuota(KubeObject, frozen=True):
    """A quota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
