"""The effective meaning of an Hvpa."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from trellis.api.kinds.hvpa import Bucket, Hvpa, MaintenanceWindow, ReplicaSize, ScaleDownPolicy, ScaleUpPolicy
from trellis.api.kinds.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerSpec
from trellis.api.resolve.stored_values import read_stored_duration
from trellis.api.resolve.vpa import EffectiveVpa, UpdateMode, resolve_vpa
from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.base.times import DailyWindow, parse_time_of_day


class ScaleMode(StrEnum):
    """When steps of a direction are taken."""

    AUTO = "Auto"
    OFF = "Off"
    MAINTENANCE_WINDOW = "MaintenanceWindow"


class ReplicaSizing(StrEnum):
    """How the size of a replica follows from the total."""

    SHARE = "Share"
    AT_LEAST_RECOMMENDED = "AtLeastRecommended"


class ScalePolicy(msgspec.Struct, frozen=True):
    """One direction. The two percentages are of the way down; on the way up they are 0."""

    mode: ScaleMode
    stabilization: Duration
    min_change_percent: int = 0
    overlap_percent: int = 0


class EffectiveHvpa(msgspec.Struct, frozen=True):
    """An Hvpa with all defaults filled in. A source that is not deployed may still be the user's own."""

    buckets: tuple[Bucket, ...]
    deploys_hpa: bool
    deploys_vpa: bool
    hpa_spec: Mapping[str, Any]
    vpa_spec: Mapping[str, Any]
    cpu: ReplicaSizing
    memory: ReplicaSizing
    up: ScalePolicy
    down: ScalePolicy
    window: DailyWindow | None

    @property
    def replicas(self) -> tuple[int, int]:
        """The lowest and the highest count of its buckets."""
        return self.buckets[0].replicas.min or 1, self.buckets[-1].replicas.max or 1


def resolve_hvpa(hvpa: Hvpa) -> EffectiveHvpa:
    """The meaning of an object."""
    spec = hvpa.spec
    size = spec.replica_size or ReplicaSize()
    up, down = spec.scale_up or ScaleUpPolicy(), spec.scale_down or ScaleDownPolicy()
    hpa_spec = spec.hpa.template.spec if spec.hpa and spec.hpa.template else None
    vpa_spec = spec.vpa.template.spec if spec.vpa and spec.vpa.template else None
    return EffectiveHvpa(
        buckets=tuple(spec.buckets or ()),
        deploys_hpa=spec.hpa is not None and spec.hpa.deploy is not False,
        deploys_vpa=spec.vpa is not None and spec.vpa.deploy is not False,
        hpa_spec=hpa_spec or {},
        vpa_spec=vpa_spec or {},
        cpu=_resolve_sizing(size.cpu, ReplicaSizing.SHARE),
        memory=_resolve_sizing(size.memory, ReplicaSizing.AT_LEAST_RECOMMENDED),
        up=ScalePolicy(
            _resolve_mode(up.update_mode), read_stored_duration(up.stabilization_window, Duration.from_seconds(0))
        ),
        down=ScalePolicy(
            _resolve_mode(down.update_mode),
            read_stored_duration(down.stabilization_window, Duration.from_seconds(300)),
            min_change_percent=10 if down.min_change_percent is None else down.min_change_percent,
            overlap_percent=10 if down.overlap_percent is None else down.overlap_percent,
        ),
        window=_resolve_window(spec.maintenance_window),
    )


def resolve_hvpa_pods(hvpa: Hvpa) -> EffectiveVpa:
    """How the pods of an Hvpa are treated: by its VPA template, but in place where possible.

    The template's own mode is `Off`, because the VPA made from it only recommends. Which resources it recommends and
    within which bounds is about that recommendation: the Hvpa decides about all it publishes, within its buckets, and
    counts on it. A stored template that cannot be read sets nothing.
    """
    source = hvpa.spec.vpa
    written = source.template.spec if source is not None and source.template is not None else None
    try:
        spec = msgspec.convert(written or {}, VerticalPodAutoscalerSpec)
    except msgspec.ValidationError:
        spec = VerticalPodAutoscalerSpec()
    resolved = resolve_vpa(VerticalPodAutoscaler(spec=_remove_bounds(spec)))
    return msgspec.structs.replace(resolved, mode=UpdateMode.IN_PLACE_OR_RECREATE)


def _remove_bounds(spec: VerticalPodAutoscalerSpec) -> VerticalPodAutoscalerSpec:
    policy = spec.resource_policy
    if policy is None or not policy.container_policies:
        return spec
    policies = [
        msgspec.structs.replace(container_policy, controlled_resources=None, min_allowed=None, max_allowed=None)
        for container_policy in policy.container_policies
    ]
    return msgspec.structs.replace(spec, resource_policy=msgspec.structs.replace(policy, container_policies=policies))


def _resolve_mode(written: str | None) -> ScaleMode:
    """An unknown mode takes no steps."""
    if written is None:
        return ScaleMode.AUTO
    return next((mode for mode in ScaleMode if mode.value == written), ScaleMode.OFF)


def _resolve_sizing(written: str | None, default: ReplicaSizing) -> ReplicaSizing:
    """An unknown sizing is read as the one with the larger result."""
    if written is None:
        return default
    return ReplicaSizing.SHARE if written == ReplicaSizing.SHARE else ReplicaSizing.AT_LEAST_RECOMMENDED


def _resolve_window(written: MaintenanceWindow | None) -> DailyWindow | None:
    if written is None:
        return None
    try:
        return DailyWindow(parse_time_of_day(written.begin), parse_time_of_day(written.end))
    except InvalidInput:
        return None
