"""Feature gates of the VerticalPodAutoscaler API, and the uses that a disabled gate forbids.

A disabled gate refuses new uses of its feature and tolerates stored ones, so that disabling it never makes an object
impossible to edit. All three gates are enabled by default; upstream has them disabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trellis.api.kinds.vpa import UPDATE_MODES
from trellis.api.problems import FORBIDDEN, Path, ValidationProblem

_IN_PLACE_MODES = frozenset(UPDATE_MODES) & {"InPlace", "InPlaceOnly"}
_PER_CONTAINER = (
    "oomBumpUpRatio",
    "oomMinBumpUp",
    "memoryAggregationIntervalSeconds",
    "memoryAggregationIntervalCount",
)


class FeatureGates(msgspec.Struct, frozen=True):
    """Which features are on."""

    cpu_startup_boost: bool = True
    in_place: bool = True
    per_vpa_config: bool = True


def find_gated_uses(spec: object, old_spec: object, gates: FeatureGates) -> Iterator[ValidationProblem]:
    """Uses of features that are off and were not used before."""
    if not gates.cpu_startup_boost and not any(_boosts(old_spec)):
        for path in _boosts(spec):
            yield ValidationProblem(path, FORBIDDEN, _how_to_enable("startupBoost", "CPUStartupBoost"))
    if not gates.in_place and not any(_in_place(old_spec)):
        for path in _in_place(spec):
            yield ValidationProblem(path, FORBIDDEN, _how_to_enable("UpdateMode InPlace", "InPlace"))
    if not gates.per_vpa_config and not any(_per_vpa_config(old_spec)):
        for path in _per_vpa_config(spec):
            yield ValidationProblem(path, FORBIDDEN, "not supported when feature flag PerVPAConfig is disabled")


def _how_to_enable(feature: str, gate: str) -> str:
    return f"in order to use {feature}, you must enable feature gate {gate} in the admission-controller args"


def _boosts(spec: object) -> Iterator[Path]:
    if _member(spec, "startupBoost") is not None:
        yield ("spec", "startupBoost")
    for path, policy in _policies(spec):
        if _member(policy, "startupBoost") is not None:
            yield (*path, "startupBoost")


def _in_place(spec: object) -> Iterator[Path]:
    mode = _member(_member(spec, "updatePolicy"), "updateMode")
    if isinstance(mode, str) and mode in _IN_PLACE_MODES:
        yield ("spec", "updatePolicy", "updateMode")


def _per_vpa_config(spec: object) -> Iterator[Path]:
    if _member(_member(spec, "updatePolicy"), "evictAfterOOMSeconds") is not None:
        yield ("spec", "updatePolicy", "evictAfterOOMSeconds")
    for path, policy in _policies(spec):
        for name in _PER_CONTAINER:
            if _member(policy, name) is not None:
                yield (*path, name)


def _policies(spec: object) -> Iterator[tuple[Path, object]]:
    policies = _member(_member(spec, "resourcePolicy"), "containerPolicies")
    if isinstance(policies, list):
        for index, policy in enumerate(policies):
            yield ("spec", "resourcePolicy", "containerPolicies", index), policy


def _member(value: object, name: str) -> Any:
    """A member of JSON that may have any shape: what is not there, or not an object, has none."""
    return value.get(name) if isinstance(value, dict) else None
