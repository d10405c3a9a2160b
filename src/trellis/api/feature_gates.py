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
    """The enabled features."""

    cpu_startup_boost: bool = True
    in_place: bool = True
    per_vpa_config: bool = True


def find_gated_uses(spec: object, old_spec: object, gates: FeatureGates) -> Iterator[ValidationProblem]:
    """New uses of disabled features."""
    if not gates.cpu_startup_boost and not any(_find_boosts(old_spec)):
        for path in _find_boosts(spec):
            yield ValidationProblem(path, FORBIDDEN, _describe_gate("startupBoost", "CPUStartupBoost"))
    if not gates.in_place and not any(_find_in_place_modes(old_spec)):
        for path in _find_in_place_modes(spec):
            yield ValidationProblem(path, FORBIDDEN, _describe_gate("UpdateMode InPlace", "InPlace"))
    if not gates.per_vpa_config and not any(_find_per_vpa_config(old_spec)):
        for path in _find_per_vpa_config(spec):
            yield ValidationProblem(path, FORBIDDEN, "not supported when feature flag PerVPAConfig is disabled")


def _describe_gate(feature: str, gate: str) -> str:
    return f"in order to use {feature}, you must enable feature gate {gate} in the admission-controller args"


def _find_boosts(spec: object) -> Iterator[Path]:
    if _get_member(spec, "startupBoost") is not None:
        yield ("spec", "startupBoost")
    for path, policy in _list_policies(spec):
        if _get_member(policy, "startupBoost") is not None:
            yield (*path, "startupBoost")


def _find_in_place_modes(spec: object) -> Iterator[Path]:
    mode = _get_member(_get_member(spec, "updatePolicy"), "updateMode")
    if isinstance(mode, str) and mode in _IN_PLACE_MODES:
        yield ("spec", "updatePolicy", "updateMode")


def _find_per_vpa_config(spec: object) -> Iterator[Path]:
    if _get_member(_get_member(spec, "updatePolicy"), "evictAfterOOMSeconds") is not None:
        yield ("spec", "updatePolicy", "evictAfterOOMSeconds")
    for path, policy in _list_policies(spec):
        for name in _PER_CONTAINER:
            if _get_member(policy, name) is not None:
                yield (*path, name)


def _list_policies(spec: object) -> Iterator[tuple[Path, object]]:
    policies = _get_member(_get_member(spec, "resourcePolicy"), "containerPolicies")
    if isinstance(policies, list):
        for index, policy in enumerate(policies):
            yield ("spec", "resourcePolicy", "containerPolicies", index), policy


def _get_member(value: object, name: str) -> Any:
    """A member of a JSON value; None if it is absent or the value is no object."""
    return value.get(name) if isinstance(value, dict) else None
