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
from bench.recommender.in_memory import STAGES, RecommenderInMemory, Spent, pin_to_one_core, resident_megabytes
from bench.recommender.usage import Size
from bench.recommender.vpa_lists import start_list_server
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


class SizeMeasurement(msgspec.Struct, frozen=True):
    """What one size took; of the later passes the fastest, and how many statuses they wrote on average."""

    start: Spent
    first: Spent
    later: Spent
    replaced: Spent
    everywhere: Spent
    writes: float
    megabytes: float

    def seconds_per_container(self, size: Size) -> float:
        """Seconds of CPU of a later pass for one container: growth is not to be that of what runs beside it."""
        return self.later.cpu_seconds / size.all_containers


class State(msgspec.Struct, frozen=True):
    """What a process holds."""

    megabytes: float
    model: UsageModelSizes


class ChurnMeasurement(msgspec.Struct, frozen=True):
    """The state after some passes, and after all; seconds of one with all that belongs to it."""

    early: State
    late: State
    seconds: float


def measure() -> list[Row]:
    rows = [row for shape, (pods, containers) in SHAPES.items() for row in _measure_shape(shape, pods, containers)]
    return [*rows, *_build_churn_rows(msgspec.json.decode(_child("churn", CHURN), type=ChurnMeasurement))]


def _measure_shape(shape: str, pods: int, containers: int) -> list[Row]:
    sizes = [Size(vpas, pods, containers) for vpas in (SMALL, MIDDLE, LARGE)]
    measurements = [msgspec.json.decode(_child("passes", size), type=SizeMeasurement) for size in sizes]
    small, large = measurements[0], measurements[-1]
    stages = ", ".join(f"{stage} {in_ms(large.later.wall[stage])}" for stage in STAGES)
    growth = large.seconds_per_container(sizes[-1]) / small.seconds_per_container(sizes[0])
    return [
        *(
            Row(f"{size.all_containers:,} containers, {shape} a VPA: a later pass", in_ms(measurement.later.seconds))
            for size, measurement in zip(sizes[:-1], measurements[:-1], strict=True)
        ),
        within(f"{sizes[-1].all_containers:,} containers, {shape} a VPA: a later pass", large.later.seconds, SECONDS),
        Row(
            "  CPU for each container, beside that of the smallest",
            f"{large.seconds_per_container(sizes[-1]) * 1e6:.1f} us",
            f"{small.seconds_per_container(sizes[0]) * 1e6:.1f} us",
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


def _build_churn_rows(measurement: ChurnMeasurement) -> list[Row]:
    before, after = measurement.early.megabytes, measurement.late.megabytes
    few, many = measurement.early.model.names, measurement.late.model.names
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
        Row("  a pass, pods included", in_ms(measurement.seconds)),
    ]


def _child(task: str, size: Size) -> str:
    numbers = (str(number) for number in (size.vpas, size.pods, size.containers))
    return run("env", *ONE_THREAD, sys.executable, "-m", "bench.recommender.one_pass", task, *numbers)


def _measure_passes(size: Size) -> SizeMeasurement:
    with start_list_server(size) as fetch:
        pin_to_one_core()
        recommender = RecommenderInMemory(size, fetch)
        start = recommender.start()
        passes = [recommender.run_pass(minute) for minute in range(EARLY_PASSES + LATER_PASSES)]
        megabytes = resident_megabytes(peak=True)
        replaced = recommender.replace_pods(1)
        everywhere = recommender.load_pods(1, everywhere=True)
    later = passes[EARLY_PASSES:]
    best = min(later, key=lambda spent: spent.seconds)
    writes = sum(spent.writes for spent in later) / len(later)
    return SizeMeasurement(start, passes[0], best, replaced, everywhere, writes, megabytes)


def _measure_churn(size: Size) -> ChurnMeasurement:
    states: dict[int, State] = {}
    best = float("inf")
    with start_list_server(size) as fetch:
        pin_to_one_core()
        recommender = RecommenderInMemory(size, fetch)
        recommender.start()
        for minute in range(1, CHURN_PASSES + 1):
            pods, spent = recommender.replace_pods(minute), recommender.run_pass(minute)
            best = min(best, sum(pods.wall.values()) + sum(spent.wall.values()))
            if minute in (CHURN_BEGINS, CHURN_PASSES):
                states[minute] = State(resident_megabytes(), recommender.sizes())
    return ChurnMeasurement(states[CHURN_BEGINS], states[CHURN_PASSES], best)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    taken = {"passes": _measure_passes, "churn": _measure_churn}[what](Size(*map(int, numbers)))
    print(msgspec.json.encode(taken).decode())
