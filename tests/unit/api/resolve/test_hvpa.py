"""What an Hvpa means: defaults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from support.builders.manifests import STORY_1, hvpa
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.resolve import EffectiveHvpa, ReplicaSizing, ScaleMode, resolve_hvpa, resolve_hvpa_pods


def meaning(document: dict[str, Any]) -> EffectiveHvpa:
    return resolve_hvpa(msgspec.convert(document, Hvpa))


@pytest.mark.req("HV-29")
def test_cpu_is_shared_and_memory_at_least_recommended_by_default() -> None:
    plain = meaning(hvpa(STORY_1))
    assert plain.cpu is ReplicaSizing.SHARE
    assert plain.memory is ReplicaSizing.AT_LEAST_RECOMMENDED
    turned = meaning(hvpa(STORY_1, replicaSize={"cpu": "AtLeastRecommended", "memory": "Share"}))
    assert turned.cpu is ReplicaSizing.AT_LEAST_RECOMMENDED
    assert turned.memory is ReplicaSizing.SHARE


def test_by_default_both_directions_act_immediately_and_scale_down_is_damped() -> None:
    plain = meaning(hvpa(STORY_1))
    assert (plain.up.mode, plain.down.mode) == (ScaleMode.AUTO, ScaleMode.AUTO)
    assert plain.up.stabilization.total_seconds() == 0
    assert plain.down.stabilization.total_seconds() == 300
    assert (plain.down.min_change_percent, plain.down.overlap_percent) == (10, 10)
    assert meaning(hvpa(STORY_1, scaleDown={"overlapPercent": 0})).down.overlap_percent == 0


@pytest.mark.req("HV-31")
def test_a_source_is_deployed_only_if_its_block_is_set_and_not_disabled() -> None:
    assert not meaning(hvpa(STORY_1)).deploys_hpa
    assert meaning(hvpa(STORY_1, hpa={})).deploys_hpa
    assert not meaning(hvpa(STORY_1, hpa={"deploy": False})).deploys_hpa
    assert meaning(hvpa(STORY_1, vpa={"deploy": True})).deploys_vpa


@pytest.mark.req("HV-32")
def test_the_hpas_template_reaches_us_unchanged() -> None:
    spec = {"maxReplicas": 8, "metrics": [{"resource": {"target": {"averageUtilization": 120}}}], "later": {"a": 1}}
    assert meaning(hvpa(STORY_1, hpa={"template": {"spec": spec}})).hpa_spec == spec


def test_an_unknown_mode_takes_no_steps() -> None:
    assert meaning(hvpa(STORY_1, scaleUp={"updateMode": "Sometimes"})).up.mode is ScaleMode.OFF


def test_the_maintenance_window_is_read_with_its_offset() -> None:
    window = meaning(hvpa(STORY_1, maintenanceWindow={"begin": "220000+0100", "end": "230000+0100"})).window
    assert window is not None
    assert window.contains(datetime(2026, 11, 15, 21, 30, tzinfo=UTC))
    assert not window.contains(datetime(2026, 11, 15, 22, 30, tzinfo=UTC))


def test_bounds_of_the_vpa_template_do_not_bound_sizes_of_the_hvpa() -> None:
    """The Hvpa counts on what it publishes: a CPU size that is not applied would starve what it scales."""
    policy = {
        "containerName": "*",
        "controlledResources": ["memory"],
        "controlledValues": "RequestsOnly",
        "minAllowed": {"memory": "1G"},
        "maxAllowed": {"cpu": "1"},
    }
    off = {"containerName": "sidecar", "mode": "Off"}
    spec = {"resourcePolicy": {"containerPolicies": [policy, off]}}
    vpa = resolve_hvpa_pods(msgspec.convert(hvpa(STORY_1, vpa={"template": {"spec": spec}}), Hvpa))
    app = vpa.get_container("app")
    assert app.controlled == ("cpu", "memory")
    assert app.min_allowed == {}
    assert app.max_allowed == {}
    assert not app.scales_limits
    assert not vpa.get_container("sidecar").is_scaled
