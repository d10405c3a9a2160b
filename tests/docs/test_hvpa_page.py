"""The page about buckets: its examples are what the code plan_sizes, and its pictures show what the text says."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from pictures.hvpa_timeline import PlannedSize, WorkloadLoop, load_hvpa, plan_sizes
from pictures.hvpas import compute_daily_usage

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/concepts/hvpa.md").read_text()
ROWS = re.findall(r"^\| story (\d) \| ([\d.]+) \| (\d+) x ([\d.]+) \|$", PAGE, re.MULTILINE)


def milli(text: str) -> int:
    return int(Fraction(text) * 1000)


def test_the_table_has_examples() -> None:
    assert len(ROWS) == 7


@pytest.mark.parametrize(("story", "total", "count", "size"), ROWS)
def test_an_example_is_what_the_buckets_say(story: str, total: str, count: str, size: str) -> None:
    hvpa = load_hvpa(ROOT / f"examples/hvpa/story-{story}.yaml")
    assert list(plan_sizes(hvpa, [milli(total)])) == [PlannedSize(milli(total), int(count), milli(size))]


def test_the_day_goes_up_and_down_the_ladder_and_pods_always_have_what_is_used() -> None:
    hvpa = load_hvpa(ROOT / "examples/hvpa/story-2.yaml")
    moments = list(WorkloadLoop(hvpa, 1, 400, startup=30, resizing=10, tick=60).run(compute_daily_usage, 86_400))
    counts = [moment.count for moment in moments]
    assert (counts[0], max(counts), counts[-1]) == (1, 4, 1)
    assert all(sum(moment.ready) >= moment.used for moment in moments)


def test_the_order_leaves_ready_pods_with_what_is_needed() -> None:
    hvpa = load_hvpa(ROOT / "examples/hvpa/story-1.yaml", scaleDown={"stabilizationWindow": "0s"})
    more = WorkloadLoop(hvpa, 2, 6000, startup=40, resizing=10, tick=10).run(lambda _: 12_001, 120, margin=1)
    assert [min(sum(moment.ready), 12_000) for moment in more] == [12_000] * 13
    fewer = WorkloadLoop(hvpa, 3, 4000, startup=40, resizing=20, tick=10).run(lambda _: 10_800, 120, margin=1)
    assert min(sum(moment.ready) for moment in fewer) == 10_800
