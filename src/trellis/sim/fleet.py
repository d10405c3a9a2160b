"""The fleet that is simulated: nodes, workloads with their demand in columns, variants and faults.

Times are seconds since 1970. Demand is what a container would use if nothing held it back; what it does use is up to
the model of the kubelets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.usage.columns import FloatColumn

Document = Mapping[str, Any]

NO_SETTINGS: Mapping[str, str] = {}

# Kinds of objects that change how many pods there are.
_SCALERS: Final = frozenset({"HorizontalPodAutoscaler", "Hvpa"})


class SimulationClock(msgspec.Struct, frozen=True):
    """The begin, the length of a step of usage, and the number of steps; `scored_from` ends the warm-up."""

    begin: float
    step: float
    steps: int
    scored_from: float

    @property
    def end(self) -> float:
        return self.begin + self.step * self.steps


class NodeShape(msgspec.Struct, frozen=True):
    """A number of equal nodes. `document` is a Node manifest without a name; `price` is money for an hour of one."""

    name: str
    count: int
    document: Document
    price: float = 0.0


class NodePool(NodeShape, frozen=True):
    """A node group: equal nodes that can be ordered and removed; `count` of them are there in the beginning."""

    max_size: int = 0
    min_size: int = 0
    boot_seconds: float = 60.0
    priority: int = 0


class ContainerDemand(msgspec.Struct, frozen=True):
    """The demand of one container: cores and bytes for each step.

    With `shared` that is the demand of the whole workload, of which each Ready pod gets its part, on top of
    `base_cpu` and `base_memory` that every pod has for itself; else every pod has all of it. With `own_memory` the
    part is one of CPU alone, and every pod has all of the memory. `spread` is how far pods
    differ, as a fraction. `leak` is bytes a second since the container started. With `by_age` a step is one since the
    container started, and not of the simulation: what a run of a batch job wants.
    """

    container: str
    cpu: FloatColumn
    memory: FloatColumn
    shared: bool = False
    by_age: bool = False
    base_cpu: float = 0.0
    base_memory: float = 0.0
    spread: float = 0.0
    leak: float = 0.0
    own_memory: bool = False


class StartProfile(msgspec.Struct, frozen=True):
    """How a pod starts: `work` core-seconds, at most `cores` at a time, on top of `seconds` that nothing shortens.

    With `probe` it becomes Ready when that is done; without one, as soon as it runs.
    """

    seconds: float = 5.0
    work: float = 0.0
    cores: float = 1.0
    probe: bool = True


class CronRules(msgspec.Struct, frozen=True):
    """The rules of a CronJob; `deadline` is how many seconds late a Job may still begin, None for any time."""

    schedule: str = ""
    time_zone: str = ""
    concurrency: str = "Allow"
    deadline: float | None = None


class SimulatedWorkload(msgspec.Struct, frozen=True):
    """A controller with its pods. `template` is a pod template as manifests have it.

    `replicas` is how many pods there are: for a Job at a time, for a DaemonSet on each node. `rollouts` are when a new
    version is rolled out. `runs` are begin and length of the runs of a Job, or of each Job of a CronJob, in which
    `completions` pods have to end well (as many as there are at a time, if it is None). `cron` is for a CronJob alone.
    `max_unavailable` is that of its PodDisruptionBudget, None if it has none.
    """

    namespace: str
    name: str
    kind: str
    replicas: int
    template: Document
    demand: tuple[ContainerDemand, ...]
    start: StartProfile = StartProfile()
    rollouts: tuple[float, ...] = ()
    runs: tuple[tuple[float, float], ...] = ()
    max_unavailable: int | None = None
    label: str = ""
    completions: int | None = None
    cron: CronRules | None = None


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong from `begin` to `end`. `about` narrows it to nodes or workloads of such names."""

    kind: str
    begin: float
    end: float
    about: str = "*"


class Intervals(msgspec.Struct, frozen=True):
    """The intervals of the components in seconds; as live, unless a scenario says otherwise."""

    recommender: float = 60.0
    updater: float = 60.0
    hpa: float = 15.0
    hvpa: float = 60.0
    nodes: float = 10.0


class Variant(msgspec.Struct, frozen=True):
    """One way to size the same fleet: VPA manifests, LimitRanges and the like, or nothing at all.

    `settings` are those of the components by their flags, such as `min-replicas`; `parameters` are given to the
    recommender by its name. With `keeps_counts` HPAs do not act: demand is that of as many pods as there were. The
    workloads of the numbers in `without` are not there.
    """

    name: str
    title: str = ""
    objects: tuple[Document, ...] = ()
    settings: Mapping[str, str] = NO_SETTINGS
    parameters: Mapping[str, Mapping[str, str]] = {}
    keeps_counts: bool = False
    without: frozenset[int] = frozenset()

    @property
    def scales(self) -> bool:
        """Whether an autoscaler of the variant changes the count of pods."""
        return not self.keeps_counts and any(document.get("kind") in _SCALERS for document in self.objects)


class Fleet(msgspec.Struct, frozen=True):
    """Everything that is simulated. `scales` is set where any variant changes counts, which are reported for all then.

    With `pools` nodes come and go.
    """

    name: str
    seed: int
    clock: SimulationClock
    intervals: Intervals
    nodes: tuple[NodeShape, ...]
    workloads: tuple[SimulatedWorkload, ...]
    variants: tuple[Variant, ...]
    faults: tuple[Fault, ...] = ()
    prices: Prices = EXAMPLE_PRICES
    scales: bool = False
    pools: tuple[NodePool, ...] = ()

    def restrict_to(self, variant: Variant) -> Fleet:
        """The fleet with only the workloads of a variant; the others keep their numbers, and have no pods."""
        if not variant.without:
            return self
        workloads = (
            msgspec.structs.replace(workload, replicas=0, runs=()) if number in variant.without else workload
            for number, workload in enumerate(self.workloads)
        )
        return msgspec.structs.replace(self, workloads=tuple(workloads))
