"""What a VerticalPodAutoscaler means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from trellis.api.problems import SUSPICIOUS, Problem
from trellis.api.resolve.boost import Boost, effective_boost
from trellis.api.resolve.recommenders import DEFAULT_RECOMMENDER, selects
from trellis.api.resolve.requirements import Requirement, effective_requirements
from trellis.api.resolve.stored import stored_amount, stored_amounts, stored_seconds
from trellis.api.vpa import (
    ANY_CONTAINER,
    ContainerResourcePolicy,
    PodResourcePolicy,
    PodUpdatePolicy,
    RecommenderSelector,
    StartupBoost,
    VerticalPodAutoscaler,
)
from trellis.api.vpa_rules import update_mode_is_current
from trellis.base.durations import Duration
from trellis.base.quantity import Quantity

RESOURCES = ("cpu", "memory")


class UpdateMode(StrEnum):
    """The modes there are, aliases and deprecated names folded in."""

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
# What metrics tell apart: the deprecated name is one of its own there, as upstream has it.
COUNTED_MODES = (*(mode.value for mode in UpdateMode), _AUTO)
# What some of them tell apart besides: an object that names no mode at all.
NO_MODE = ""
WRITTEN_MODES = (*COUNTED_MODES, NO_MODE)


class ContainerMeaning(msgspec.Struct, frozen=True, gc=False):
    """How one container is treated. `scaled` is false under `mode: Off`; boost does not depend on it."""

    scaled: bool
    controlled: tuple[str, ...]
    limits_follow: bool
    min_allowed: Mapping[str, Quantity]
    max_allowed: Mapping[str, Quantity]
    boost: Boost | None
    oom_bump_up_ratio: Quantity | None = None
    oom_min_bump_up: Quantity | None = None
    memory_window: Duration | None = None
    memory_windows: int | None = None


class EffectiveVpa(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscaler with nothing left open. `None` stands for the flag of the component that reads it."""

    mode: UpdateMode
    # Whether the mode was written with its deprecated name.
    auto: bool
    # Whether any was written.
    mode_given: bool
    min_replicas: int | None
    evict_after_oom: Duration | None
    requirements: tuple[Requirement, ...]
    # Upstream's spelling restricts eviction and leaves in-place resizes free.
    requirements_for_eviction_only: bool
    recommenders: tuple[RecommenderSelector, ...]
    parameters: Mapping[str, str]
    # By the name in its policy, read once: a webhook asks for them with every pod. `others` is without a policy.
    containers: Mapping[str, ContainerMeaning]
    others: ContainerMeaning
    warnings: tuple[Problem, ...]

    @property
    def counted_mode(self) -> str:
        """The mode as metrics have it, one of `COUNTED_MODES`."""
        return _AUTO if self.auto and self.mode is UpdateMode.RECREATE else self.mode.value

    @property
    def written_mode(self) -> str:
        """The same as it was written, one of `WRITTEN_MODES`."""
        return self.counted_mode if self.mode_given else NO_MODE

    @property
    def recommender(self) -> str:
        """The one that serves the object."""
        return self.recommenders[0].name if self.recommenders else DEFAULT_RECOMMENDER

    @property
    def boosts(self) -> bool:
        """Whether any container could be boosted when it starts."""
        return self.others.boost is not None or any(each.boost is not None for each in self.containers.values())

    def served_by(self, name: str) -> bool:
        """Whether a recommender of that name serves the object."""
        return selects(self.recommenders, name)

    def container(self, name: str) -> ContainerMeaning:
        """How a container is treated: by its own policy, else by that of `*`, else by the defaults."""
        return self.containers.get(name) or self.containers.get(ANY_CONTAINER) or self.others


def resolve_vpa(vpa: VerticalPodAutoscaler) -> EffectiveVpa:
    """The meaning of an object."""
    spec = vpa.spec
    policy = spec.update_policy or PodUpdatePolicy(update_mode=UpdateMode.RECREATE)
    requirements, eviction_only = effective_requirements(policy)
    mode, warnings = _mode(policy)
    recommenders = tuple(spec.recommenders or ())
    return EffectiveVpa(
        mode=mode,
        auto=policy.update_mode == _AUTO,
        mode_given=spec.update_policy is not None and spec.update_policy.update_mode is not None,
        min_replicas=policy.min_replicas,
        evict_after_oom=stored_seconds(policy.evict_after_oom_seconds),
        requirements=requirements,
        requirements_for_eviction_only=eviction_only,
        recommenders=recommenders,
        parameters=(recommenders[0].parameters or {}) if recommenders else {},
        containers={name: _container(policy, spec.startup_boost) for name, policy in _policies(spec.resource_policy)},
        others=_container(_NO_POLICY, spec.startup_boost) if spec.startup_boost else _UNTOUCHED,
        warnings=warnings,
    )


def acts(vpa: VerticalPodAutoscaler) -> bool:
    """Whether its recommendation reaches pods: for who asks that of many objects, and nothing else."""
    policy = vpa.spec.update_policy
    return policy is None or policy.update_mode is None or _MODES.get(policy.update_mode) not in (None, UpdateMode.OFF)


def _mode(policy: PodUpdatePolicy) -> tuple[UpdateMode, tuple[Problem, ...]]:
    """The mode and what is to be said of it. A mode we do not know acts on nothing."""
    place = ("spec", "updatePolicy")
    warnings = tuple(problem.below(place) for problem in update_mode_is_current.problems(policy))
    if policy.update_mode is None:
        return UpdateMode.RECREATE, warnings
    known = _MODES.get(policy.update_mode)
    if known is None:
        text = f'"{policy.update_mode}" is not a mode of this version, so the object is treated as Off'
        return UpdateMode.OFF, (*warnings, Problem((*place, "updateMode"), SUSPICIOUS, text))
    return known, warnings


def _policies(written: PodResourcePolicy | None) -> Iterable[tuple[str, ContainerResourcePolicy]]:
    """By container; of two for one name upstream takes the first, of two for `*` the last."""
    found: dict[str, ContainerResourcePolicy] = {}
    for policy in (written.container_policies if written is not None else None) or ():
        if policy.container_name == ANY_CONTAINER or policy.container_name not in found:
            found[policy.container_name] = policy
    return found.items()


def _container(policy: ContainerResourcePolicy, boost_default: StartupBoost | None) -> ContainerMeaning:
    controlled = RESOURCES if policy.controlled_resources is None else policy.controlled_resources
    return ContainerMeaning(
        scaled=policy.mode != "Off",
        controlled=tuple(name for name in RESOURCES if name in controlled),
        limits_follow=policy.controlled_values != "RequestsOnly",
        min_allowed=stored_amounts(policy.min_allowed),
        max_allowed=stored_amounts(policy.max_allowed),
        boost=effective_boost(boost_default, policy.startup_boost),
        oom_bump_up_ratio=stored_amount(policy.oom_bump_up_ratio),
        oom_min_bump_up=stored_amount(policy.oom_min_bump_up),
        memory_window=stored_seconds(policy.memory_aggregation_interval_seconds),
        memory_windows=policy.memory_aggregation_interval_count,
    )


_NO_POLICY = ContainerResourcePolicy()
_UNTOUCHED = _container(_NO_POLICY, None)
