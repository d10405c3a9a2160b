"""Buckets, demand and policies of an Hvpa, at random. All of them are valid."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.builders.manifests import bucket
from trellis.api.buckets import RESOURCES
from trellis.core.recommend.amounts import ResourceAmounts

SIZINGS = st.sampled_from(["Share", "AtLeastRecommended"])
MODES = st.sampled_from(["Auto", "Auto", "Off", "MaintenanceWindow"])


@st.composite
def spans(draw: st.DrawFn, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Bounds per replica, one pair for each range of counts, whose totals do not fall."""
    spans: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(ranges):
        low, high = draw(st.integers(0, 40)), draw(st.integers(0, 400))
        if at:
            below, (least, most) = ranges[at - 1][1], spans[-1]
            low += -(-below * least // first)
            high += max(0, -(-below * most // first) - low) * (last - first + 1)
        spans.append((low, low + high))
    return spans


@st.composite
def buckets(draw: st.DrawFn, cpu_unit: int = 1, memory_unit: int = 1) -> list[dict[str, Any]]:
    """Up to three, with holes and gaps; bounds are so many millicores and bytes, of up to some thousands."""
    ranges: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 3))):
        first = (ranges[-1][1] if ranges else 0) + draw(st.integers(1, 3))
        ranges.append((first, first + draw(st.integers(0, 5))))
    cpu, memory = draw(spans(ranges)), draw(spans(ranges))
    return [
        bucket(counts, (f"{a * cpu_unit}m", f"{b * cpu_unit}m"), (c * memory_unit, d * memory_unit))
        for counts, (a, b), (c, d) in zip(ranges, cpu, memory, strict=True)
    ]


@st.composite
def totals(draw: st.DrawFn) -> ResourceAmounts:
    return {name: draw(st.integers(0, 6000)) for name in RESOURCES}


@st.composite
def sizings(draw: st.DrawFn) -> dict[str, str]:
    return {name: draw(SIZINGS) for name in RESOURCES}


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ResourceAmounts]:
    """How many pods there are at first, and what each has."""
    return draw(st.integers(1, 20)), draw(totals())


@st.composite
def policies(draw: st.DrawFn, modes: st.SearchStrategy[str] = MODES) -> dict[str, Any]:
    """When and how steps are taken; the maintenance window is open for some of the minutes of a test."""
    return {
        "replicaSize": draw(sizings()),
        "scaleUp": {"updateMode": draw(modes), "stabilizationWindow": draw(st.sampled_from(["0s", "0s", "3m"]))},
        "scaleDown": {
            "updateMode": draw(modes),
            "stabilizationWindow": draw(st.sampled_from(["0s", "2m", "5m"])),
            "minChangePercent": draw(st.sampled_from([0, 10, 30])),
            "overlapPercent": draw(st.sampled_from([0, 10, 50, 100])),
        },
        "maintenanceWindow": {"begin": "080300-0000", "end": "080600-0000"},
    }
