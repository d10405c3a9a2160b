"""A count that is written to an Hvpa's scale while no HPA drives it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.hvpas import NOW, amounts, decided, meaning, shape, view
from trellis.api.kinds.hvpa import HvpaStatus
from trellis.base.json_lines import encode_payload
from trellis.core.hvpa import (
    ContainerView,
    HvpaMemory,
    HvpaPlan,
    HvpaView,
    SetScale,
    WriteBack,
    build_hpa_demand,
    forget_written_replicas,
    restore_memory,
)
from trellis.core.hvpa.demand.scale import SCALE_REQUEST_WITHOUT_REQUESTS, SCALE_REQUESTED
from trellis.core.hvpa.demand.vpa import NO_TOTALS
from trellis.core.hvpa.remembered_state import ScaleWrite
from trellis.core.hvpa.steps import NO_RECOMMENDATION
from trellis.core.recording.hvpa import RecordedHvpaPlan

# Eight counts up to 2400m: two hold 1200m and three 2700m.
LADDER = meaning(
    {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "2400m"}, "memory": {"min": "0", "max": "8G"}}
)


def workload(
    replicas: int, cpu: str, spec_replicas: int | None, memory: HvpaMemory | None = None, **more: Any
) -> HvpaView:
    size = amounts(cpu=cpu)
    fields = {"target": amounts(cpu="600m"), "total": amounts(cpu="1200m"), **more}
    return view(replicas, size, spec_replicas=spec_replicas, memory=memory or HvpaMemory(), meaning=LADDER, **fields)


def begun(**more: Any) -> HvpaMemory:
    return decided(workload(2, "600m", 2, **more)).memory


def is_requested(made: HvpaPlan) -> bool:
    return SCALE_REQUESTED in made.summary.notes


@pytest.mark.req("HV-06")
def test_a_wish_is_what_a_pod_requests_times_it_beside_the_total_of_the_vpa() -> None:
    made = decided(workload(2, "600m", 4, begun(), scale_writer="kubectl"), NOW + 15)
    assert shape(made) == (3, 800, None)
    assert made.actions == (SetScale(3), WriteBack(3))
    assert made.hpa == amounts(cpu="2400m")
    assert made.summary.note_details[SCALE_REQUESTED.code] == (
        "kubectl asks for 4 replicas (CPU 2.4 in total), until 2027-01-15T08:05:15Z"
    )
    assert made.requeue_at == NOW + 315


def test_a_wish_counts_for_the_scale_down_window_and_then_the_vpa_decides_again() -> None:
    made = decided(workload(2, "600m", 4, begun()), NOW + 15)
    held = decided(workload(3, "800m", 3, made.memory), NOW + 314)
    assert (shape(held), is_requested(held)) == ((3, 800, None), True)
    over = decided(workload(3, "800m", 3, held.memory), NOW + 315)
    assert (shape(over), is_requested(over), over.hpa) == ((3, 400, None), False, {})
    assert over.memory.scale_write is msgspec.UNSET


def test_a_wish_before_the_vpa_has_spoken_is_followed_and_stays_until_it_speaks() -> None:
    silent: dict[str, Any] = {"target": {}, "total": {}}
    first = decided(workload(2, "600m", 2, **silent))
    assert first.summary.reason is NO_RECOMMENDATION
    made = decided(workload(2, "600m", 4, first.memory, **silent), NOW + 15)
    assert shape(made) == (3, 800, None)
    over = decided(workload(3, "800m", 3, made.memory, **silent), NOW + 400)
    assert (shape(over), over.summary.reason) == ((3, 800, None), NO_RECOMMENDATION)


def test_at_the_first_pass_a_count_is_a_wish_if_another_writer_is_known() -> None:
    assert shape(decided(workload(2, "600m", 4, scale_writer="kubectl"))) == (3, 800, None)
    assert shape(decided(workload(2, "600m", 4))) == (2, 600, None)
    assert not is_requested(decided(workload(2, "600m", 2, scale_writer="kubectl"))), "what runs is no wish"


def test_a_wish_is_not_followed_twice_where_the_write_after_it_failed_and_another_one_is() -> None:
    made = decided(workload(2, "600m", 4, begun(), scale_writer="kubectl"), NOW + 15)
    lost = forget_written_replicas(made.memory)
    assert shape(decided(workload(3, "800m", 4, lost, scale_writer="kubectl"), NOW + 16)) == (3, 800, None)
    assert shape(decided(workload(3, "800m", 5, lost, scale_writer="kubectl"), NOW + 16)) == (4, 1000, None)
    assert shape(decided(workload(3, "800m", 4, lost, scale_writer="keda"), NOW + 16)) == (4, 800, None)


def test_a_wish_for_less_lowers_nothing_unless_it_is_repeated_for_the_whole_window() -> None:
    silent: dict[str, Any] = {"target": {}, "total": {}}
    memory = begun(**silent)
    for seconds in range(15, 330, 15):
        made = decided(workload(2, "600m", 1, memory, **silent), NOW + seconds)
        memory = made.memory
        assert is_requested(made)
        assert shape(made) == ((2, 600, None) if seconds < 315 else (2, 300, None))


def test_pods_without_requests_cannot_follow_a_wish_and_that_is_reported() -> None:
    bare = (ContainerView("app", True),)
    first = decided(HvpaView(LADDER, 2, 2, 2, bare, spec_replicas=2))
    made = decided(
        HvpaView(LADDER, 2, 2, 2, bare, spec_replicas=4, memory=first.memory, scale_writer="kubectl"), NOW + 15
    )
    assert made.actions == (WriteBack(2),)
    assert SCALE_REQUEST_WITHOUT_REQUESTS in made.summary.notes
    assert made.summary.note_details[SCALE_REQUEST_WITHOUT_REQUESTS.code] == "kubectl asks for 4 replicas"


def test_a_controller_that_starts_anew_knows_a_wish_that_counts() -> None:
    made = decided(workload(2, "600m", 4, begun(), scale_writer="kubectl"), NOW + 15)
    memory = restore_memory(HvpaStatus(hpa=build_hpa_demand(made)), NOW + 60)
    again = decided(workload(3, "800m", 3, memory), NOW + 60)
    assert (shape(again), is_requested(again)) == ((3, 800, None), True)
    assert shape(decided(workload(3, "800m", 3, again.memory), NOW + 361)) == (3, 400, None)


def test_a_plan_without_a_wish_is_recorded_as_before_there_were_any() -> None:
    assert b'"wish"' not in encode_payload(RecordedHvpaPlan.of(decided(workload(2, "600m", 2))).memory)
    made = decided(workload(2, "600m", 4, begun(), scale_writer="kubectl"), NOW + 15)
    text = encode_payload(RecordedHvpaPlan.of(made).memory)
    assert msgspec.json.decode(text, type=HvpaMemory).scale_write == ScaleWrite(4, "kubectl", NOW + 15)


@given(
    replicas=st.integers(1, 8),
    request=st.integers(1, 2400),
    spec_replicas=st.integers(0, 20),
    total=st.integers(0, 20_000),
)
def test_a_wish_never_gives_less_than_the_vpa_asks_for_and_is_gone_after_the_window(
    replicas: int, request: int, spec_replicas: int, total: int
) -> None:
    fields: dict[str, Any] = {"target": {"cpu": 1}, "total": {"cpu": total}}

    def observe(memory: HvpaMemory, count: int, size: int, on_scale: int) -> HvpaView:
        return view(count, {"cpu": size}, memory=memory, meaning=LADDER, spec_replicas=on_scale, **fields)

    first = decided(observe(HvpaMemory(), replicas, request, replicas))
    plain, made = (decided(observe(first.memory, replicas, request, on), NOW + 1) for on in (replicas, spec_replicas))
    assert made.totals["cpu"] >= plain.totals["cpu"]
    assert made.totals["cpu"] <= max(plain.totals["cpu"], request * spec_replicas, request * replicas)
    assert made.memory.spec_replicas == made.memory.target_replicas
    later = decided(observe(made.memory, replicas, request, made.memory.spec_replicas or 0), NOW + 400)
    assert later.hpa == {}
    assert later.totals["cpu"] == total


@pytest.mark.req("HV-06")
def test_a_target_that_moves_without_totals_moves_nothing_and_the_decision_says_so() -> None:
    six = decided(view(2, amounts(cpu="6"), amounts(cpu="6"), spec_replicas=2))
    assert (shape(six), six.summary.reason) == ((2, 6000, None), NO_TOTALS)
    forty = decided(view(2, amounts(cpu="6"), amounts(cpu="40"), spec_replicas=2, memory=six.memory), NOW + 60)
    assert (shape(forty), forty.summary.reason) == ((2, 6000, None), NO_TOTALS)
    assert forty.summary.details == "CPU is held at 12 in total, and the VPA recommends 40 for each pod"
    grown = decided(view(5, amounts(cpu="6"), amounts(cpu="40"), spec_replicas=5, memory=six.memory), NOW + 60)
    assert grown.vpa == amounts(cpu="12"), "never today's count either"


def test_totals_in_the_status_end_the_holding() -> None:
    held = decided(view(2, amounts(cpu="6"), amounts(cpu="6"), spec_replicas=2))
    fields: dict[str, Any] = {"spec_replicas": 2, "memory": held.memory, "published_totals": amounts(cpu="80")}
    made = decided(view(2, amounts(cpu="6"), amounts(cpu="40"), **fields), NOW + 60)
    assert (made.shape.count, made.vpa, made.memory.held_totals) == (6, amounts(cpu="80"), {})
    assert NO_TOTALS not in made.summary.notes


def test_totals_of_a_resource_that_the_vpa_does_not_recommend_have_no_say() -> None:
    fields: dict[str, Any] = {"spec_replicas": 2, "published_totals": amounts(cpu="80", memory="4G")}
    made = decided(view(2, amounts("6", "2G"), amounts(memory="2G"), **fields))
    assert made.vpa == amounts(memory="4G")
    gone = decided(view(2, amounts("6", "2G"), **fields))
    assert gone.summary.reason is NO_RECOMMENDATION, "what was written for a VPA that is gone is nobody's demand"
