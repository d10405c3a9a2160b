"""How an explanation of an Hvpa reads, and how its buckets are drawn."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.collected_clusters import Cluster, search
from support.golden_files import assert_golden
from support.worlds.resizes import container
from trellis.core.explain import ObjectExplanation, explain_hvpa, explain_pod
from trellis.core.explain.explanation.hvpa import CountCapacityPart, DemandPart, HvpaPart
from trellis.reports.explain.bucket_drawing import draw_buckets
from trellis.reports.explain.report import as_json, as_text

EDGES = (3, 12, 27, 48, 75, 108, 147, 192)


def world(replicas: int, cpu: str, total: str, **spec: Any) -> Cluster:
    cluster = Cluster()
    cluster.add_workload("web", replicas, container(cpu=cpu, memory="1G"))
    cluster.add_hvpa("web", **spec)
    cluster.add_hvpa_vpa("web", {"app": {"cpu": "1", "memory": "1G"}}, {"app": {"cpu": total, "memory": "2G"}})
    return cluster


def text(explained: ObjectExplanation, width: int = 80) -> str:
    return "\n".join(as_text(explained, width)) + "\n"


def explain_web(cluster: Cluster) -> str:
    """On lines of any length."""
    return text(explain_hvpa(cluster.evidence(), "web"), 1000)


def drawn(now: tuple[int, str], decided: tuple[int, str], width: int = 80, **more: Any) -> list[str]:
    """Story 1 by CPU."""
    steps = tuple(CountCapacityPart(count, "", str(edge)) for count, edge in enumerate(EDGES, 1))
    part = HvpaPart("web", "Deployment web", replicas=now[0], count=decided[0], capacities={"cpu": steps})
    asked = more.pop("asked", decided[1])
    demand = DemandPart("cpu", asked, decided[1], now[1], decided[0], up_to="", **more)
    return list(draw_buckets(part, demand, width, plain=False))


def row(lines: list[str], count: int) -> str:
    return next(line for line in lines if line.strip().startswith(f"{count} ┤"))


def test_an_explanation_of_an_hvpa_is_as_approved() -> None:
    explained = explain_hvpa(search().evidence(), "search")
    assert_golden("explain-hvpa.txt", text(explained))
    assert_golden("explain-hvpa.json", as_json(explained).decode())


def test_machines_get_the_same_as_data() -> None:
    document = json.loads(as_json(explain_hvpa(search().evidence(), "search")))["hvpa"]
    assert (document["count"], document["size"]) == (3, {"cpu": "8", "memory": "5G"})
    assert document["countChanges"][0] == {"count": 4, "upwards": True, "totals": {"cpu": "27", "memory": "29062500k"}}


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, plain: bool) -> None:
    lines = list(as_text(explain_hvpa(search().evidence(), "search"), width, plain=plain))
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_a_terminal_without_such_characters_gets_plain_ones() -> None:
    assert "\n".join(as_text(explain_hvpa(search().evidence(), "search"), 80, plain=True)).isascii()


def test_a_pods_explanation_names_its_hvpa() -> None:
    explanation = text(explain_pod(search().evidence(), "search-1-0"), 1000)
    assert (
        "Hvpa search decides number and size of the replicas of Deployment search: "
        "3 replicas of CPU 8 and memory 5G each." in explanation
    )


# Sentences


def test_an_unchanged_count_is_reported_with_the_reason() -> None:
    explanation = explain_web(world(3, "3700m", "11", scaleDown={"stabilizationWindow": "0s"}))
    assert "3 replicas are kept: CPU is above 10.8, which is 10 % below what fewer hold." in explanation


def test_a_blocked_step_is_reported_with_its_end() -> None:
    assert "until 08:05 UTC, in 5 min, at the latest." in explain_web(world(3, "8", "5"))
    window = {"begin": "220000-0000", "end": "230000-0000"}
    explanation = explain_web(
        world(2, "6", "20", scaleUp={"updateMode": "MaintenanceWindow"}, maintenanceWindow=window)
    )
    assert "2 replicas stay for now: the step up is blocked." in explanation
    assert "inside the maintenance window; until 22:00 UTC, in 14 h." in explanation


def test_while_a_step_up_is_held_back_no_sentence_takes_it_for_taken() -> None:
    explanation = explain_web(world(2, "3", "24", scaleUp={"updateMode": "Off"}))
    assert "Decided: 2 replicas of CPU 3 and memory 1G each." in explanation
    assert "CPU: the demand is 24, from the VPA. It needs 3 replicas: fewer hold up to 12, 3 up to 27." in explanation
    assert "2 replicas stay for now: the step up is blocked." in explanation
    assert "CPU: 24 over 2 replicas is a share of 12; the VPA's target is 1. The size stays 3 for now" in explanation
    assert "◇ demand: 24   ◉ now and decided: 2 replicas for 6" in explanation
    assert "It would be 3 replicas" not in explanation
    # Memory has what follows from its total.
    assert "With AtLeastRecommended, the size is the larger of the share and the VPA's target: 1G" in explanation


def test_a_decrease_below_the_threshold_is_reported_as_unchanged() -> None:
    explanation = explain_web(world(3, "8", "23", scaleDown={"stabilizationWindow": "0s"}))
    assert "CPU: 23 over 3 replicas is a share of 7.667; the VPA's target is 1. The size stays 8 for now" in explanation


def test_demand_above_the_last_bucket_is_reported() -> None:
    assert "CPU: the demand is 200, from the VPA. That exceeds the 192 that 8 replicas hold." in explain_web(
        world(2, "6", "200")
    )


def test_unchanged_pods_are_reported_with_the_reason() -> None:
    assert "Nothing changes. ScaledToZero" in explain_web(world(0, "6", "20"))
    refused = explain_web(world(2, "6", "20", buckets=[]))
    assert "It does not change Deployment web. HvpaRefused: spec.buckets" in refused
    assert "REPLICAS" not in refused


def test_steps_and_bytes_are_written_for_people() -> None:
    blocked = [{"direction": "Down", "reason": "MinChange", "message": "2 x (CPU 6, memory 5G): too little."}]
    conditions = [{"type": "Active", "status": "True", "reason": "AsDecided"}]
    explanation = explain_web(world(2, "6", "12", status={"blocked": blocked, "conditions": conditions}))
    assert "Blocked step down, MinChange: 2 x (CPU 6, memory 5G): too little." in explanation


# Drawings


def test_marks_stand_at_their_totals_on_the_rows_of_their_counts() -> None:
    lines = drawn((2, "12"), (3, "24"), kept_above="10800m")
    assert row(lines, 3).index("●") > row(lines, 2).index("○")
    assert "╌" in row(lines, 3)
    assert lines[-1] == "○ now: 2 replicas with 12   ● decided: 3 replicas for 24   ╌ kept above 10.8"


def test_current_and_decided_totals_that_agree_have_one_mark() -> None:
    lines = drawn((3, "24"), (3, "24"))
    assert "◉" in row(lines, 3)
    assert not any(mark in line for line in lines for mark in "○●")


def test_an_edge_stands_below_the_end_of_its_step() -> None:
    lines = drawn((3, "24"), (3, "24"))
    ends = [row(lines, count).index("╯") for count in range(1, 8)]
    axis, labels = lines[-3], lines[-2]
    assert [at for at, sign in enumerate(axis) if sign == "┴"][:-1] == ends
    assert [labels[: end + 1].split()[-1] for end in ends] == [str(edge) for edge in EDGES[:-1]]


def test_a_count_that_no_bucket_has_is_reported_below() -> None:
    lines = drawn((20, "24"), (3, "24"))
    assert "○ now: 20 replicas with 24 (not drawn)" in "\n".join(lines)


def test_in_a_narrow_terminal_the_counts_that_matter_are_left() -> None:
    lines = drawn((6, "80"), (5, "70"), width=40)
    assert [int(line.split()[0]) for line in lines if "┤" in line] == [7, 6, 5, 4]
    assert max(len(line) for line in lines if line != lines[0]) <= 40


def test_what_is_asked_for_is_marked_where_it_is_not_what_counts() -> None:
    lines = drawn((3, "24"), (3, "24"), asked="5")
    assert "◇" in row(lines, 2)
    assert "◇ demand: 5" in lines[-1]


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=32),
    st.tuples(st.integers(1, 40), st.integers(0, 9000)),
    st.tuples(st.integers(0, 31), st.integers(0, 9000)),
    st.integers(30, 130),
)
def test_any_ladder_can_be_drawn(steps: list[int], now: tuple[int, int], decided: tuple[int, int], width: int) -> None:
    totals = [sum(steps[: at + 1]) for at in range(len(steps))]
    ladder = tuple(CountCapacityPart(count, "", f"{total}m") for count, total in enumerate(totals, 1))
    count = ladder[min(decided[0], len(ladder) - 1)].count
    part = HvpaPart("web", "Deployment web", replicas=now[0], count=count, capacities={"cpu": ladder})
    demand = DemandPart("cpu", f"{decided[1]}m", f"{decided[1]}m", f"{now[1]}m", count, up_to="")
    lines = list(draw_buckets(part, demand, width, plain=True))
    assert [line for line in lines if line.split("|")[0].strip() == str(count)]
    assert any(mark in line for line in lines for mark in "*@")
    assert msgspec.json.decode(msgspec.json.encode(part), type=HvpaPart) == part
