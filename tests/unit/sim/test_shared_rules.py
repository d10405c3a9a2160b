"""What the simulator takes from the core in another way than a controller does, and must come out the same."""

from __future__ import annotations

import msgspec
import pytest

from made_fleets import vpa
from trellis.api.vpa import (
    ContainerRecommendation,
    PodRecommendation,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerStatus,
)
from trellis.core.model.told import Told
from trellis.core.resize.looks import RENEWED_SECONDS, again_after
from trellis.core.sizing.governors import readvised, vpa_governor
from trellis.sim.policies import read_policies


def advised(found: VerticalPodAutoscaler, cpu: str) -> VerticalPodAutoscaler:
    entry = ContainerRecommendation("app", {"cpu": cpu, "memory": "1Gi"}, {"cpu": "10m"}, {"cpu": "9"})
    status = VerticalPodAutoscalerStatus(PodRecommendation([entry]))
    return msgspec.structs.replace(found, status=status)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "Initial"])
def test_a_governor_with_new_advice_is_the_one_compiled_anew(mode: str) -> None:
    (first,) = read_policies([vpa("web", mode)], 0.0).vpas
    old, new = (vpa_governor(advised(first, cpu)) for cpu in ("100m", "250m"))
    assert old is not None
    assert readvised(old, advised(first, "250m").status) == new


def test_a_governor_that_only_boosts_has_no_advice() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    (first,) = read_policies([vpa("web", "Off", startupBoost=boost)], 0.0).vpas
    governor = vpa_governor(first)
    assert governor is not None
    assert readvised(governor, advised(first, "250m").status) == vpa_governor(advised(first, "250m"))


def test_after_a_write_it_is_looked_again_when_nothing_else_would_say_so() -> None:
    assert {told: again_after(told) for told in Told} == {
        **dict.fromkeys((Told.APPLIED, Told.SKIPPED, Told.GONE)),
        **dict.fromkeys((Told.CONFLICT, Told.INVALID), RENEWED_SECONDS),
        **dict.fromkeys((Told.FORBIDDEN, Told.THROTTLED, Told.INFEASIBLE, Told.REFUSED, Told.FAILED), 0.0),
    }
