"""The pictures of the page about buckets, drawn from what the decision says and from lives that follow it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pictures.hvpa_frames import Frame, add_steps, draw_picture
from pictures.hvpa_timeline import Moment, PlannedSize, WorkloadLoop, load_hvpa, plan_sizes

_LEFT: Final = 46
_DAY: Final = 86_400.0


def draw_ladders(root: Path) -> str:
    """Stories 1 and 2: how many replicas a total gets, and how big they are."""
    parts: list[str] = []
    for number, (story, most) in enumerate((("story-1", 200), ("story-2", 76))):
        hvpa = load_hvpa(root / f"examples/hvpa/{story}.yaml")
        result = list(plan_sizes(hvpa, range(0, most * 1000, 40)))
        parts += _draw_ladder(f"S{story[1:].replace('-', ' ')}", result, _LEFT + 440 * number, most)
    return draw_picture(880, 430, "Replicas and size per replica over the total of CPU, for both stories", parts)


def _draw_ladder(title: str, sizes_by_total: Sequence[PlannedSize], left: float, most: int) -> Iterator[str]:
    ticks = [(at, f"{at:g}") for at in range(0, most, 50 if most > 100 else 10)]
    largest = max(planned.size for planned in sizes_by_total) / 1000
    counts = Frame(left, 40, 380, 140, (0, most), 9)
    yield from counts.axes(f"{title}: replicas", (0, 2, 4, 6, 8), ticks)
    yield counts.line([(size.total / 1000, size.count) for size in sizes_by_total], "count")
    sizes = Frame(left, 236, 380, 140, (0, most), largest * 1.15)
    yield from sizes.axes(f"{title}: cores of each", [largest * part / 3 for part in range(4)], ticks)
    yield sizes.line([(size.total / 1000, size.size / 1000) for size in sizes_by_total], "size")
    yield f'<text x="{left + 190}" y="412" text-anchor="middle">cores needed in total</text>'


def draw_edges(root: Path) -> str:
    """A gap between two buckets, and the overlap of two counts."""
    parts = [*_draw_gap(list(plan_sizes(load_hvpa(root / "examples/hvpa/story-2.yaml"), range(0, 3501, 5))))]
    hvpa = load_hvpa(root / "examples/hvpa/story-1.yaml")
    up = list(plan_sizes(hvpa, range(8000, 15001, 10), 2))
    down = list(plan_sizes(hvpa, range(15000, 7999, -10), 3))
    parts += _draw_overlap(up, down)
    return draw_picture(
        880, 270, "What is allocated in a gap, and where the count changes on the way up and down", parts
    )


def _draw_gap(sizes_by_total: Sequence[PlannedSize]) -> Iterator[str]:
    frame = Frame(_LEFT, 40, 380, 170, (0, 3.5), 3.6)
    yield frame.band(1, 2)
    yield from frame.axes("A gap: cores that are allocated", (0, 1, 2, 3), [(at, f"{at}") for at in range(4)])
    yield frame.line([(0, 0), (3.5, 3.5)], "used dashed")
    yield frame.line([(planned.total / 1000, planned.count * planned.size / 1000) for planned in sizes_by_total], "has")
    yield frame.text(0.1, 0.72, "1 replica", anchor="start")
    yield frame.text(1.5, 2, "2 x 1 core")
    yield frame.text(2.75, 2.35, "2 replicas", anchor="start")
    yield f'<text x="{_LEFT + 190}" y="246" text-anchor="middle">cores needed in total (story 2)</text>'


def _draw_overlap(up: Sequence[PlannedSize], down: Sequence[PlannedSize]) -> Iterator[str]:
    left = _LEFT + 440
    frame = Frame(left, 40, 380, 170, (8, 15), 4)
    band = [size.total / 1000 for size, other in zip(up, reversed(down), strict=True) if size.count != other.count]
    yield frame.band(min(band), max(band))
    ticks = [(at, f"{at:g}") for at in (8, 9, 10, 10.8, 12, 13, 14, 15)]
    yield from frame.axes("Overlap: replicas", (0, 1, 2, 3), ticks)
    yield frame.line([(size.total / 1000, size.count) for size in up], "count")
    falls = [(planned.total / 1000, planned.count - 0.06) for planned in down]
    yield frame.line(falls, "size dashed")
    yield frame.text(12.1, 2.4, "more: at 12", anchor="start")
    yield frame.text(10.7, 2.4, "fewer: at 10.8", anchor="end")
    yield f'<text x="{left + 190}" y="246" text-anchor="middle">cores needed in total (story 1)</text>'


def draw_day(root: Path) -> str:
    """A day of a workload that walks through the buckets of story 2."""
    hvpa = load_hvpa(root / "examples/hvpa/story-2.yaml")
    life = WorkloadLoop(hvpa, 1, 400, startup=30, resizing=10, tick=60)
    moments = list(life.run(compute_daily_usage, _DAY))
    hours = [(at, f"{at} h") for at in range(0, 25, 4)]
    top = Frame(_LEFT, 40, 818, 150, (0, 24), 24)
    parts = [*top.axes("Cores in total: used (grey), and what Ready pods have (line)", (0, 5, 10, 15, 20), hours)]
    parts.append(top.area([(moment.at / 3600, moment.used / 1000) for moment in moments]))
    parts.append(top.line([(moment.at / 3600, sum(moment.ready) / 1000) for moment in moments], "has"))
    counts = Frame(_LEFT, 246, 818, 80, (0, 24), 6)
    parts += counts.axes("Replicas", (0, 2, 4), hours)
    parts.append(counts.line([(moment.at / 3600, moment.count) for moment in moments], "count"))
    sizes = Frame(_LEFT, 382, 818, 90, (0, 24), 6)
    parts += sizes.axes("Cores of each", (0, 2, 4), hours)
    parts.append(sizes.line([(moment.at / 3600, moment.size / 1000) for moment in moments], "size"))
    return draw_picture(880, 506, "A day: use and allocation, replicas and the size of each over time", parts)


def compute_daily_usage(after: float) -> int:
    """A quiet night, a busy day, and an hour in the evening that is busier."""
    hour = after / 3600
    day = math.exp(-(((hour - 13) / 4.2) ** 2))
    evening = math.exp(-(((hour - 20) / 0.8) ** 2))
    return round(350 + 9000 * day + 14_000 * evening)


def draw_order_of_changes(root: Path) -> str:
    """What Ready pods hold while there are more and smaller ones, and fewer and larger ones."""
    hvpa = load_hvpa(root / "examples/hvpa/story-1.yaml", scaleDown={"stabilizationWindow": "0s"})
    grown_count = WorkloadLoop(hvpa, 2, 6000, startup=40, resizing=10, tick=10)
    grown = list(grown_count.run(lambda after: 12_000 if after < 20 else 12_001, 120, margin=1))
    fewer = WorkloadLoop(hvpa, 3, 4000, startup=40, resizing=20, tick=10)
    shrunk = list(fewer.run(lambda after: 12_000 if after < 20 else 10_800, 120, margin=1))
    parts = [*_draw_order("More and smaller: Ready first", grown, _LEFT)]
    parts += _draw_order("Fewer and larger: grow first", shrunk, _LEFT + 440)
    return draw_picture(880, 290, "Cores of Ready pods over two minutes, each pod a band, and what is needed", parts)


def _draw_order(title: str, moments: Sequence[Moment], left: float) -> Iterator[str]:
    frame = Frame(left, 40, 380, 190, (0, 120), 21)
    ticks = [(at, f"{at} s") for at in range(0, 121, 20)]
    yield from frame.axes(f"{title} (cores of Ready pods)", (0, 4, 8, 12, 16, 20), ticks)
    for begin, end in _find_stretches(moments):
        floor = 0
        for size in moments[begin].ready:
            y, height = frame.y((floor + size) / 1000), frame.y(floor / 1000) - frame.y((floor + size) / 1000)
            x, width = frame.x(moments[begin].at), frame.x(end) - frame.x(moments[begin].at)
            yield f'<rect class="pod" x="{x}" y="{y + 1:g}" width="{width:g}" height="{height - 2:g}"/>'
            if width > 45:
                middle = f'x="{x + width / 2:g}" y="{y + height / 2 + 4:g}" text-anchor="middle"'
                yield f"<text {middle}>{size / 1000:g}</text>"
            floor += size
    yield frame.line(add_steps([(moment.at, moment.used / 1000) for moment in moments]), "need")
    middle = f'x="{left + 190}" y="272" text-anchor="middle"'
    yield f"<text {middle}>the line is what is needed, and changes after 20 s</text>"


def _find_stretches(moments: Sequence[Moment]) -> Iterator[tuple[int, float]]:
    """Where what Ready pods have begins to be another, and when that ends."""
    begins = [at for at in range(len(moments)) if not at or moments[at].ready != moments[at - 1].ready]
    ends = [*(moments[at].at for at in begins[1:]), 120.0]
    yield from zip(begins, ends, strict=True)
