"""Simulates all variants of a fleet, several at a time in processes of their own.

Of a variant, one thing happens after the other: everything up to a step, then the step, in which usage advances for all
containers at once. The same fleet and variant give the same result in any process. A variant that fails is reported,
and the others go on. A run that is stopped returns what there is so far, marked as partial.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.errors import TrellisError
from trellis.base.python_gc import pause_garbage_collection
from trellis.sim.child_processes import start_ignoring_interrupts
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.telemetry import PodEvent
from trellis.sim.components.control_plane import ControlPlane
from trellis.sim.components.objects import read_objects
from trellis.sim.components.recommender import find_unknown_recommenders
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.kernel import Kernel
from trellis.sim.results import RunResult, VariantResult
from trellis.sim.scores.scorer import Scorer

# How often progress is reported, in steps.
_PROGRESS_STEPS: Final = 16


class SimulationProgress(msgspec.Struct, frozen=True):
    """The progress of a variant: steps that are done, of how many, and the time in it."""

    variant: str
    done: int
    steps: int
    time: float


def run_variant(
    fleet: Fleet,
    variant: Variant,
    *,
    progress: Callable[[SimulationProgress], None] = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> VariantResult:
    """Run a variant to its end, or until `stop` returns True; `InvalidInput` if it is not valid."""
    clock, fleet = fleet.clock, fleet.restrict_to(variant)
    # No object of a run is in a cycle, and the search for cycles takes a tenth of its time.
    with pause_garbage_collection():
        run = _VariantRun(fleet, variant)
        for number in range(clock.steps):
            reached = clock.begin + number * clock.step
            if number % _PROGRESS_STEPS == 0:
                progress(SimulationProgress(variant.name, number, clock.steps, reached))
                if stop():
                    return run.build_result(partial_until=reached)
            run.step(number, reached)
        run.end(clock.end)
        progress(SimulationProgress(variant.name, clock.steps, clock.steps, clock.end))
        return run.build_result(partial_until=None)


class _VariantRun:
    """A running variant: it watches the cluster for the components and for the scores."""

    def __init__(self, fleet: Fleet, variant: Variant) -> None:
        self._variant = variant
        self._kernel = Kernel(fleet.clock.begin)
        self._scorer = Scorer(fleet)
        # The same draws for every variant, so that they differ by decisions alone.
        rng = np.random.default_rng(fleet.seed)
        self._cluster = ModelCluster(fleet, self._kernel, self._admit, rng, self)
        self._control_plane = ControlPlane(
            fleet,
            variant,
            self._kernel,
            self._cluster,
            on_recommendation=self._scorer.record_recommendations,
            on_reason=self._scorer.marks.note_reason,
        )
        self._control_plane.begin()
        self._cluster.begin()

    def _admit(self, pod: Pod) -> Pod:
        return self._control_plane.admit(pod)

    def step(self, number: int, time: float) -> None:
        """Run all events until a step begins, and the step."""
        self._kernel.run_until(time)
        usage = self._cluster.step(number)
        self._control_plane.on_usage(usage, self._cluster.rows)
        self._scorer.add_step(usage, self._cluster, self._control_plane.chunks)

    def end(self, time: float) -> None:
        """Run all events of the last step."""
        self._kernel.run_until(time)

    def build_result(self, partial_until: float | None) -> VariantResult:
        """The result so far."""
        nodes = self._control_plane.node_figures
        return self._scorer.build_result(
            self._variant, self._cluster, self._control_plane.verdicts, partial_until, nodes
        )

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""
        self._control_plane.on_pod(old, new)
        if new is None and old is not None:
            self._scorer.marks.forget_pod(old.metadata.uid)

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        self._control_plane.on_workload(kind, old, new)
        if old is not None and new is not None:
            self._scorer.record_scaling(self._kernel.now, kind, old, new)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Handle a change of a node."""
        self._control_plane.on_node(old, new)

    def on_eviction(self, event: Event) -> None:
        """Handle an eviction by a kubelet."""
        self._control_plane.on_eviction(event)

    def on_pod_event(self, workload: int, event: PodEvent, pod: Pod, text: str) -> None:
        """Handle an event of a pod."""
        self._scorer.on_pod_event(self._kernel.now, workload, event, pod, text)


# How often `stop` is called, in seconds.
_POLL_SECONDS: Final = 0.1
_STOP: Final = b"stop"

OnProgress = Callable[[SimulationProgress], None]


def simulate(
    fleet: Fleet,
    *,
    progress: OnProgress = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
    processes: int = 1,
) -> RunResult:
    """Simulate all variants of a fleet. `progress` is called as each advances, and `stop` decides whether to go on."""
    fleet = msgspec.structs.replace(fleet, scales=any(variant.scales for variant in fleet.variants))
    together = min(processes, len(fleet.variants))
    run = _run_in_processes if together > 1 else _run_in_sequence
    result: dict[str, VariantResult] = {}
    notes: list[str] = []
    for name, outcome in run(fleet, progress, stop, together):
        if isinstance(outcome, str):
            notes.append(f"variant {name} failed: {outcome}")
        else:
            result[name] = outcome
    notes += [
        note
        for variant in fleet.variants
        if variant.name in result
        for note in _describe_stand_ins(variant, fleet.clock.begin)
    ]
    variants = [result[variant.name] for variant in fleet.variants if variant.name in result]
    clock = fleet.clock
    return RunResult(
        scenario=fleet.name,
        seed=fleet.seed,
        begin=clock.begin,
        end=clock.end,
        scored_from=clock.scored_from,
        step=clock.step,
        currency=fleet.prices.currency,
        prices=fleet.prices.name,
        variants=variants,
        partial=len(variants) < len(fleet.variants) or any(variant.partial_until is not None for variant in variants),
        notes=sorted(notes),
    )


def _describe_stand_ins(variant: Variant, begin: float) -> Iterator[str]:
    for name in find_unknown_recommenders(read_objects(variant.objects, begin).vpas):
        yield (
            f"variant {variant.name}: recommender {name} does not come with Trellis; the recommender "
            "default is used instead"
        )


def _run_in_sequence(
    fleet: Fleet, progress: OnProgress, stop: Callable[[], bool], _together: int
) -> Iterator[tuple[str, VariantResult | str]]:
    for variant in fleet.variants:
        if stop():
            return
        yield variant.name, _run_caught(fleet, variant, progress, stop)


def _run_caught(fleet: Fleet, variant: Variant, progress: OnProgress, stop: Callable[[], bool]) -> VariantResult | str:
    try:
        return run_variant(fleet, variant, progress=progress, stop=stop)
    except TrellisError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - an error of ours must not cost the others their results
        return f"{type(error).__name__}: {error}"


class _Worker:
    """A process that runs one variant, and the connection to it."""

    def __init__(self, fleet: Fleet, variant: Variant) -> None:
        context = multiprocessing.get_context("spawn")
        self.variant = variant
        self.connection, child_connection = context.Pipe()
        single = msgspec.structs.replace(fleet, variants=(variant,))
        self._process = context.Process(
            target=_work, args=(single, child_connection), name=f"variant {variant.name}", daemon=True
        )
        start_ignoring_interrupts(self._process)
        child_connection.close()

    def stop(self) -> None:
        """Ask it to end with what it has."""
        try:
            self.connection.send_bytes(_STOP)
        except OSError:
            # It has ended already, and its last message is still to be read.
            return

    def read(self, progress: OnProgress) -> VariantResult | str | None:
        """Read a message: progress, or a result."""
        try:
            kind, payload = msgspec.msgpack.decode(self.connection.recv_bytes(), type=tuple[str, msgspec.Raw])
        except (EOFError, OSError):
            self._process.join()
            return f"its process ended with exit code {self._process.exitcode}"
        if kind == SimulationProgress.__name__:
            progress(msgspec.msgpack.decode(payload, type=SimulationProgress))
            return None
        if kind == VariantResult.__name__:
            return msgspec.msgpack.decode(payload, type=VariantResult)
        return msgspec.msgpack.decode(payload, type=str)

    def close(self) -> None:
        """End it, if it has not ended."""
        self.connection.close()
        self._process.terminate()
        self._process.join()


def _run_in_processes(
    fleet: Fleet, progress: OnProgress, stop: Callable[[], bool], together: int
) -> Iterator[tuple[str, VariantResult | str]]:
    waiting = list(reversed(fleet.variants))
    working: dict[Any, _Worker] = {}
    is_stopping = False
    try:
        while working or (waiting and not is_stopping):
            if not is_stopping and stop():
                is_stopping = True
                for worker in working.values():
                    worker.stop()
            while waiting and len(working) < together and not is_stopping:
                worker = _Worker(fleet, waiting.pop())
                working[worker.connection] = worker
            for connection in wait(list(working), _POLL_SECONDS):
                outcome = working[connection].read(progress)
                if outcome is not None:
                    finished = working.pop(connection)
                    finished.close()
                    yield finished.variant.name, outcome
    finally:
        for worker in working.values():
            worker.close()


def _work(fleet: Fleet, connection: Connection) -> None:
    """Run a variant in a child process."""

    def send(message: SimulationProgress | VariantResult | str) -> None:
        connection.send_bytes(msgspec.msgpack.encode((type(message).__name__, message)))

    send(_run_caught(fleet, fleet.variants[0], send, connection.poll))
