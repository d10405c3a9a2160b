"""A pass of the recommender on one core: from the bytes of one PodMetricsList to the requests with the patches.

100,000 containers in 20,000 VPAs, in two shapes: five pods of one container each, whose samples share 20,000 rows, and
one pod of five containers each, with a row for every sample. Each size runs in a process of its own, pinned to a core,
which has all pods, VPAs and workloads in memory as a recommender has them. The machine is shared with whatever else
runs on it, so that of several later passes the fastest counts. The first pass of a process, which writes every status,
is there for comparison.

Memory must not grow with what was: a thousand passes, in each of which a twentieth of the pods is replaced.
"""

from __future__ import annotations

import sys

import msgspec

from bench.measurement import Row, in_ms, run, within
from bench.recommender.in_memory import STAGES, RecommenderInMemory, Spent, on_one_core, resident_megabytes
from bench.recommender.usage import Size
from bench.recommender.vpa_lists import lists_of
from trellis.core.usage.model import UsageModelSizes

SECONDS = 1.5
MEGABYTES = 1_200
LINEAR = 1.5  # how much more a container may cost where there are ten times as many
FLAT = 1.05

SMALL, MIDDLE, LARGE = 2_000, 6_000, 20_000  # VPAs of five containers each
SHAPES = {"5 pods of 1 container": (5, 1), "1 pod of 5 containers": (1, 5)}

# Statuses are written again when they are some minutes old: only after that a pass is one of many.
EARLY_PASSES, LATER_PASSES = 9, 7
CHURN = Size(2_000, 5, 1)
CHURN_PASSES, CHURN_BEGINS = 1_000, 100

ONE_THREAD = ("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")


class Taken(msgspec.Struct, frozen=True):
    """What one size took; of the later passes the fastest, and how many statuses they wrote on average."""

    start: Spent
    first: Spent
    later: Spent
    replaced: Spent
    everywhere: Spent
    writes: float
    megabytes: float

    def each(self, size: Size) -> float:
        """Seconds of CPU of a later pass for one container: growth is not to be that of what runs beside it."""
        return self.later.cpu_seconds / size.all_containers


class State(msgspec.Struct, frozen=True):
    """What a process holds."""

    megabytes: float
    model: UsageModelSizes


class Churned(msgspec.Struct, frozen=True):
    """The state after some passes, and after all; seconds of one with all that belongs to it."""

    early: State
    late: State
    seconds: float


def measure() -> list[Row]:
    rows = [row for shape, (pods, containers) in SHAPES.items() for row in _of_shape(shape, pods, containers)]
    return [*rows, *_of_churn(msgspec.json.decode(_child("churn", CHURN), type=Churned))]


def _of_shape(shape: str, pods: int, containers: int) -> list[Row]:
    sizes = [Size(vpas, pods, containers) for vpas in (SMALL, MIDDLE, LARGE)]
    taken = [msgspec.json.decode(_child("passes", size), type=Taken) for size in sizes]
    small, large = taken[0], taken[-1]
    stages = ", ".join(f"{stage} {in_ms(large.later.wall[stage])}" for stage in STAGES)
    growth = large.each(sizes[-1]) / small.each(sizes[0])
    return [
        *(
            Row(f"{size.all_containers:,} containers, {shape} a VPA: a later pass", in_ms(each.later.seconds))
            for size, each in zip(sizes[:-1], taken[:-1], strict=True)
        ),
        within(f"{sizes[-1].all_containers:,} containers, {shape} a VPA: a later pass", large.later.seconds, SECONDS),
        Row(
            "  CPU for each container, beside that of the smallest",
            f"{large.each(sizes[-1]) * 1e6:.1f} us",
            f"{small.each(sizes[0]) * 1e6:.1f} us",
            f"{growth:.1f}x",
            f"<= {LINEAR:g}x",
            growth <= LINEAR,
        ),
        Row(f"  {stages}", f"CPU {in_ms(large.later.cpu_seconds)}"),
        Row("  statuses it writes", f"{large.writes:,.0f}"),
        Row(f"  the first pass, with {large.first.writes:,} statuses", in_ms(large.first.seconds)),
        Row(
            "  resident at most, pods and VPAs included",
            f"{large.megabytes:,.0f} MB",
            bar=f"<= {MEGABYTES:,} MB",
            met=large.megabytes <= MEGABYTES,
        ),
        Row("  pods: all for the first time", in_ms(large.start.wall["pods"])),
        Row("  pods: 5 % replaced, in as many namespaces", in_ms(large.replaced.wall["pods"])),
        Row("  pods: 5 % replaced, looked at in all namespaces", in_ms(large.everywhere.wall["pods"])),
    ]


def _of_churn(taken: Churned) -> list[Row]:
    before, after = taken.early.megabytes, taken.late.megabytes
    few, many = taken.early.model.names, taken.late.model.names
    ratio, names = after / before, many / few
    passes = f"{CHURN.all_containers:,} containers, 5 % of the pods replaced in each of {CHURN_PASSES:,} passes"
    return [
        Row(
            f"{passes}: resident at the end, beside pass {CHURN_BEGINS}",
            f"{after:.0f} MB",
            f"{before:.0f} MB",
            f"{ratio:.2f}x",
            f"<= {FLAT:g}x",
            ratio <= FLAT,
        ),
        Row("  names kept", f"{many:,}", f"{few:,}", f"{names:.2f}x", "<= 1x", names <= 1),
        Row("  a pass, pods included", in_ms(taken.seconds)),
    ]


def _child(what: str, size: Size) -> str:
    numbers = (str(each) for each in (size.vpas, size.pods, size.containers))
    return run("env", *ONE_THREAD, sys.executable, "-m", __name__, what, *numbers)


def _take_passes(size: Size) -> Taken:
    with lists_of(size) as ask:
        on_one_core()
        recommender = RecommenderInMemory(size, ask)
        start = recommender.start()
        passes = [recommender.run_pass(minute) for minute in range(EARLY_PASSES + LATER_PASSES)]
        megabytes = resident_megabytes(peak=True)
        replaced = recommender.replace_pods(1)
        everywhere = recommender.load_pods(1, everywhere=True)
    later = passes[EARLY_PASSES:]
    best = min(later, key=lambda spent: spent.seconds)
    writes = sum(spent.writes for spent in later) / len(later)
    return Taken(start, passes[0], best, replaced, everywhere, writes, megabytes)


def _take_churn(size: Size) -> Churned:
    states: dict[int, State] = {}
    best = float("inf")
    with lists_of(size) as ask:
        on_one_core()
        recommender = RecommenderInMemory(size, ask)
        recommender.start()
        for minute in range(1, CHURN_PASSES + 1):
            pods, spent = recommender.replace_pods(minute), recommender.run_pass(minute)
            best = min(best, sum(pods.wall.values()) + sum(spent.wall.values()))
            if minute in (CHURN_BEGINS, CHURN_PASSES):
                states[minute] = State(resident_megabytes(), recommender.sizes())
    return Churned(states[CHURN_BEGINS], states[CHURN_PASSES], best)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    taken = {"passes": _take_passes, "churn": _take_churn}[what](Size(*map(int, numbers)))
    print(msgspec.json.encode(taken).decode())
