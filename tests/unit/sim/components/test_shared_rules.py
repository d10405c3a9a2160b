"""What the simulator takes from the core in another way than a controller does, and must come out the same."""

from __future__ import annotations

import msgspec
import pytest

from support.builders.fleets import vpa
from trellis.api.kinds.vpa import (
    ContainerRecommendation,
    PodRecommendation,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerStatus,
)
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.state.attempts import REQUEUE_AFTER_CONFLICT_SECONDS, find_requeue_delay
from trellis.core.sizing.governors import compile_vpa_governor, update_advice
from trellis.sim.components.objects import read_objects


def advised(vpa: VerticalPodAutoscaler, cpu: str) -> VerticalPodAutoscaler:
    entry = ContainerRecommendation("app", {"cpu": cpu, "memory": "1Gi"}, {"cpu": "10m"}, {"cpu": "9"})
    status = VerticalPodAutoscalerStatus(PodRecommendation([entry]))
    return msgspec.structs.replace(vpa, status=status)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "Initial"])
def test_a_governor_with_new_advice_is_the_one_compiled_anew(mode: str) -> None:
    (first,) = read_objects([vpa("web", mode)], 0.0).vpas
    old, new = (compile_vpa_governor(advised(first, cpu)) for cpu in ("100m", "250m"))
    assert old is not None
    assert update_advice(old, advised(first, "250m").status) == new


def test_a_governor_that_only_boosts_has_no_advice() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    (first,) = read_objects([vpa("web", "Off", startupBoost=boost)], 0.0).vpas
    governor = compile_vpa_governor(first)
    assert governor is not None
    assert update_advice(governor, advised(first, "250m").status) == compile_vpa_governor(advised(first, "250m"))


def test_after_a_write_it_is_requeued_when_no_event_would_follow() -> None:
    assert {result: find_requeue_delay(result) for result in WriteResult} == {
        **dict.fromkeys((WriteResult.APPLIED, WriteResult.SKIPPED, WriteResult.GONE)),
        **dict.fromkeys((WriteResult.CONFLICT, WriteResult.INVALID), REQUEUE_AFTER_CONFLICT_SECONDS),
        **dict.fromkeys(
            (
                WriteResult.FORBIDDEN,
                WriteResult.THROTTLED,
                WriteResult.INFEASIBLE,
                WriteResult.REFUSED,
                WriteResult.FAILED,
            ),
            0.0,
        ),
    }
