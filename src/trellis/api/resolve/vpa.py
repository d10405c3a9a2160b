"""The effective meaning of a VerticalPodAutoscaler: mode, recommender, requirements, container policies, boost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from trellis.api.kinds.vpa import (
    ANY_CONTAINER,
    ActuationRequirement,
    ContainerResourcePolicy,
    CPUBoost,
    EvictionRequirement,
    PodResourcePolicy,
    PodUpdatePolicy,
    RecommenderSelector,
    StartupBoost,
    VerticalPodAutoscaler,
)
from trellis.api.problems import SUSPICIOUS, ValidationProblem
from trellis.api.resolve.stored_values import (
    read_stored_amount,
    read_stored_amounts,
    read_stored_duration,
    read_stored_seconds,
)
from trellis.api.rules.vpa import update_mode_is_current
from trellis.base.durations import Duration
from trellis.base.quantities import Quantity

DEFAULT_RECOMMENDER = "default"
# The recommenders that come with Trellis.
BUILT_IN_RECOMMENDERS = frozenset({DEFAULT_RECOMMENDER, "window", "seasonal", "adaptive", "phases"})


def selects_recommender(recommenders: Sequence[RecommenderSelector] | None, name: str) -> bool:
    """Whether the list names that recommender, letter for letter; no list at all names `default`.

    The list may have any length: that it has at most one entry is a rule of validation alone, and can be lifted there.
    """
    if not recommenders:
        return name == DEFAULT_RECOMMENDER
    return any(entry.name == name for entry in recommenders)


class ChangeRequirement(StrEnum):
    """How a target must compare with a request. `NEVER` stands for an unknown value: nothing satisfies it."""

    HIGHER = "TargetHigherThanRequests"
    HIGHER_OR_EQUAL = "TargetHigherThanOrEqualToRequests"
    LOWER = "TargetLowerThanRequests"
    LOWER_OR_EQUAL = "TargetLowerThanOrEqualToRequests"
    NEVER = "Never"


_KNOWN = {change.value: change for change in ChangeRequirement if change is not ChangeRequirement.NEVER}


class EffectiveRequirement(msgspec.Struct, frozen=True):
    """One requirement, its resources in the API's spelling (`cpu`, `memory`)."""

    resources: frozenset[str]
    change: ChangeRequirement


def resolve_requirements(policy: PodUpdatePolicy) -> tuple[tuple[EffectiveRequirement, ...], bool]:
    """The requirements, and whether they govern eviction alone (upstream's spelling does)."""
    if policy.actuation_requirements is not None:
        return _resolve_list(policy.actuation_requirements), False
    return _resolve_list(policy.eviction_requirements or ()), policy.eviction_requirements is not None


def _resolve_list(written: Iterable[ActuationRequirement | EvictionRequirement]) -> tuple[EffectiveRequirement, ...]:
    return tuple(
        EffectiveRequirement(
            resources=frozenset(name.lower() for name in item.resources or ()),
            change=_KNOWN.get(item.change_requirement, ChangeRequirement.NEVER),
        )
        for item in written
    )


class BoostKind(StrEnum):
    """How the boosted value follows from the base."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


class Boost(msgspec.Struct, frozen=True):
    """A boost in effect: `factor` or `quantity` counts, by `kind`."""

    kind: BoostKind
    factor: int
    quantity: Quantity
    duration: Duration
    give_up_after: Duration | None = None


def resolve_boost(pod_boost: StartupBoost | None, container_boost: StartupBoost | None) -> Boost | None:
    """The boost of a container: its own policy replaces the pod's as a whole, and a policy without `cpu` is no boost.

    A factor of 1 and a quantity of 0 raise nothing, so they are no boost either. A stored boost that cannot be read (of
    unknown type, or without an amount) is none.
    """
    chosen = container_boost if container_boost is not None else pod_boost
    cpu = chosen.cpu if chosen is not None else None
    if cpu is None:
        return None
    match cpu.type:
        case BoostKind.FACTOR if cpu.factor is not None and cpu.factor > 1:
            return Boost(
                BoostKind.FACTOR,
                cpu.factor,
                Quantity.ZERO,
                _read_duration(cpu),
                read_stored_seconds(cpu.give_up_after_seconds),
            )
        case BoostKind.QUANTITY if (added := read_stored_amount(cpu.quantity)) is not None and added > Quantity.ZERO:
            return Boost(
                BoostKind.QUANTITY, 1, added, _read_duration(cpu), read_stored_seconds(cpu.give_up_after_seconds)
            )
        case _:
            return None


def _read_duration(cpu: CPUBoost) -> Duration:
    """The duration after Ready, in either field; `0s` without both."""
    return read_stored_duration(
        cpu.duration, default=read_stored_seconds(cpu.duration_seconds) or Duration.from_seconds(0)
    )


RESOURCES = ("cpu", "memory")


class UpdateMode(StrEnum):
    """The update modes; aliases and deprecated names map to these."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"


_AUTO = "Auto"
_MODES = {mode.value: mode for mode in UpdateMode} | {
    _AUTO: UpdateMode.RECREATE,
    "InPlaceOnly": UpdateMode.IN_PLACE,
}
# The modes in metrics: as upstream, the deprecated name counts separately.
COUNTED_MODES = (*(mode.value for mode in UpdateMode), _AUTO)
# An object without a mode, which some metrics count separately.
NO_MODE = ""
WRITTEN_MODES = (*COUNTED_MODES, NO_MODE)


# Recordings hold both with the names that the fields had first.
class EffectiveContainerPolicy(msgspec.Struct, frozen=True, gc=False):
    """How one container is treated. `scaled` is false under `mode: Off`; boost does not depend on it."""

    is_scaled: bool
    controlled: tuple[str, ...]
    scales_limits: bool
    min_allowed: Mapping[str, Quantity]
    max_allowed: Mapping[str, Quantity]
    boost: Boost | None
    oom_bump_up_ratio: Quantity | None = None
    oom_min_bump_up: Quantity | None = None
    memory_window: Duration | None = None
    memory_windows: int | None = None


class EffectiveVpa(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscaler with all defaults filled in. `None` stands for the flag of the reading component."""

    mode: UpdateMode
    # Whether the mode was written with its deprecated name.
    is_auto: bool
    # Whether any was written.
    has_mode: bool
    min_replicas: int | None
    evict_after_oom: Duration | None
    requirements: tuple[EffectiveRequirement, ...]
    # Upstream's spelling restricts eviction and leaves in-place resizes free.
    requirements_for_eviction_only: bool
    recommenders: tuple[RecommenderSelector, ...]
    parameters: Mapping[str, str]
    # Resolved once, because the webhook reads them with every pod. Containers without a policy have the default.
    containers: Mapping[str, EffectiveContainerPolicy]
    default_container: EffectiveContainerPolicy
    warnings: tuple[ValidationProblem, ...]

    @property
    def counted_mode(self) -> str:
        """The mode in metrics, one of `COUNTED_MODES`."""
        return _AUTO if self.is_auto and self.mode is UpdateMode.RECREATE else self.mode.value

    @property
    def written_mode(self) -> str:
        """The mode as it was written, one of `WRITTEN_MODES`."""
        return self.counted_mode if self.has_mode else NO_MODE

    @property
    def recommender(self) -> str:
        """The recommender that serves the object."""
        return self.recommenders[0].name if self.recommenders else DEFAULT_RECOMMENDER

    @property
    def can_boost(self) -> bool:
        """Whether any container can be boosted when it starts."""
        return self.default_container.boost is not None or any(
            container.boost is not None for container in self.containers.values()
        )

    def is_served_by(self, name: str) -> bool:
        """Whether a recommender of that name serves the object."""
        return selects_recommender(self.recommenders, name)

    def get_container(self, name: str) -> EffectiveContainerPolicy:
        """The policy of a container: its own, else that of `*`, else the default."""
        return self.containers.get(name) or self.containers.get(ANY_CONTAINER) or self.default_container


def resolve_vpa(vpa: VerticalPodAutoscaler) -> EffectiveVpa:
    """The meaning of an object."""
    spec = vpa.spec
    policy = spec.update_policy or PodUpdatePolicy(update_mode=UpdateMode.RECREATE)
    requirements, eviction_only = resolve_requirements(policy)
    mode, warnings = _resolve_mode(policy)
    recommenders = tuple(spec.recommenders or ())
    return EffectiveVpa(
        mode=mode,
        is_auto=policy.update_mode == _AUTO,
        has_mode=spec.update_policy is not None and spec.update_policy.update_mode is not None,
        min_replicas=policy.min_replicas,
        evict_after_oom=read_stored_seconds(policy.evict_after_oom_seconds),
        requirements=requirements,
        requirements_for_eviction_only=eviction_only,
        recommenders=recommenders,
        parameters=(recommenders[0].parameters or {}) if recommenders else {},
        containers={
            name: _resolve_container(policy, spec.startup_boost)
            for name, policy in _select_policies(spec.resource_policy)
        },
        default_container=_resolve_container(_NO_POLICY, spec.startup_boost) if spec.startup_boost else _UNTOUCHED,
        warnings=warnings,
    )


def is_applied_to_pods(vpa: VerticalPodAutoscaler) -> bool:
    """Whether its recommendation is applied to pods; cheaper than resolving the object."""
    policy = vpa.spec.update_policy
    return policy is None or policy.update_mode is None or _MODES.get(policy.update_mode) not in (None, UpdateMode.OFF)


def _resolve_mode(policy: PodUpdatePolicy) -> tuple[UpdateMode, tuple[ValidationProblem, ...]]:
    """The mode and its warnings. An unknown mode acts on nothing."""
    place = ("spec", "updatePolicy")
    warnings = tuple(problem.with_prefix(place) for problem in update_mode_is_current.problems(policy))
    if policy.update_mode is None:
        return UpdateMode.RECREATE, warnings
    mode = _MODES.get(policy.update_mode)
    if mode is None:
        text = f'"{policy.update_mode}" is not a mode of this version, so the object is treated as Off'
        return UpdateMode.OFF, (*warnings, ValidationProblem((*place, "updateMode"), SUSPICIOUS, text))
    return mode, warnings


def _select_policies(written: PodResourcePolicy | None) -> Iterable[tuple[str, ContainerResourcePolicy]]:
    """Policies by container. As upstream, of two for one name the first counts, of two for `*` the last."""
    policies: dict[str, ContainerResourcePolicy] = {}
    for policy in (written.container_policies if written is not None else None) or ():
        if policy.container_name == ANY_CONTAINER or policy.container_name not in policies:
            policies[policy.container_name] = policy
    return policies.items()


def _resolve_container(policy: ContainerResourcePolicy, boost_default: StartupBoost | None) -> EffectiveContainerPolicy:
    controlled = RESOURCES if policy.controlled_resources is None else policy.controlled_resources
    return EffectiveContainerPolicy(
        is_scaled=policy.mode != "Off",
        controlled=tuple(name for name in RESOURCES if name in controlled),
        scales_limits=policy.controlled_values != "RequestsOnly",
        min_allowed=read_stored_amounts(policy.min_allowed),
        max_allowed=read_stored_amounts(policy.max_allowed),
        boost=resolve_boost(boost_default, policy.startup_boost),
        oom_bump_up_ratio=read_stored_amount(policy.oom_bump_up_ratio),
        oom_min_bump_up=read_stored_amount(policy.oom_min_bump_up),
        memory_window=read_stored_seconds(policy.memory_aggregation_interval_seconds),
        memory_windows=policy.memory_aggregation_interval_count,
    )


_NO_POLICY = ContainerResourcePolicy()
_UNTOUCHED = _resolve_container(_NO_POLICY, None)
