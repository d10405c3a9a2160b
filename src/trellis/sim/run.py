"""What comes of all variants? Each is run for itself, several at a time in processes of their own.

A variant that fails is told of, and the others go on. Who wants to stop gets what there is so far, marked as partial.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import msgspec

from trellis.base.errors import TrellisError
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.policies import read_policies
from trellis.sim.recommending import stand_ins
from trellis.sim.results import RunResult, VariantResult
from trellis.sim.undisturbed import start_undisturbed
from trellis.sim.variant import Progress, run_variant

# How often somebody who might want to stop is asked, in seconds.
_ASKED_EVERY: Final = 0.1
_STOP: Final = b"stop"

Told = Callable[[Progress], None]


def simulate(
    fleet: Fleet,
    *,
    progress: Told = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
    processes: int = 1,
) -> RunResult:
    """All variants of a fleet. `progress` is told how far each is, and `stop` asked whether to go on."""
    fleet = msgspec.structs.replace(fleet, scales=any(each.scales for each in fleet.variants))
    together = min(processes, len(fleet.variants))
    run = _in_processes if together > 1 else _one_by_one
    found: dict[str, VariantResult] = {}
    notes: list[str] = []
    for name, outcome in run(fleet, progress, stop, together):
        if isinstance(outcome, str):
            notes.append(f"variant {name} could not be run: {outcome}")
        else:
            found[name] = outcome
    notes += [note for each in fleet.variants if each.name in found for note in _stand_ins(each, fleet.clock.begin)]
    variants = [found[each.name] for each in fleet.variants if each.name in found]
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
        partial=len(variants) < len(fleet.variants) or any(each.partial_until is not None for each in variants),
        notes=sorted(notes),
    )


def _stand_ins(variant: Variant, begin: float) -> Iterator[str]:
    for name in stand_ins(read_policies(variant.objects, begin).vpas):
        yield f"variant {variant.name}: recommender {name} does not come with Trellis; the default algorithm stood in"


def _one_by_one(
    fleet: Fleet, progress: Told, stop: Callable[[], bool], _together: int
) -> Iterator[tuple[str, VariantResult | str]]:
    for variant in fleet.variants:
        if stop():
            return
        yield variant.name, _tried(fleet, variant, progress, stop)


def _tried(fleet: Fleet, variant: Variant, progress: Told, stop: Callable[[], bool]) -> VariantResult | str:
    try:
        return run_variant(fleet, variant, progress=progress, stop=stop)
    except TrellisError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - an error of ours must not cost the others their results
        return f"{type(error).__name__}: {error}"


class _Worker:
    """A process that runs one variant, and the line to it."""

    def __init__(self, fleet: Fleet, variant: Variant) -> None:
        context = multiprocessing.get_context("spawn")
        self.variant = variant
        self.line, theirs = context.Pipe()
        alone = msgspec.structs.replace(fleet, variants=(variant,))
        self._process = context.Process(target=_work, args=(alone, theirs), name=f"variant {variant.name}", daemon=True)
        start_undisturbed(self._process)
        theirs.close()

    def stop(self) -> None:
        """Have it come to an end with what it has."""
        try:
            self.line.send_bytes(_STOP)
        except OSError:
            # It is over already, and what it said last is still to be read.
            return

    def read(self, progress: Told) -> VariantResult | str | None:
        """What it says: how far it is, or what came of it."""
        try:
            kind, said = msgspec.msgpack.decode(self.line.recv_bytes(), type=tuple[str, msgspec.Raw])
        except (EOFError, OSError):
            self._process.join()
            return f"its process ended with exit code {self._process.exitcode}"
        if kind == Progress.__name__:
            progress(msgspec.msgpack.decode(said, type=Progress))
            return None
        if kind == VariantResult.__name__:
            return msgspec.msgpack.decode(said, type=VariantResult)
        return msgspec.msgpack.decode(said, type=str)

    def close(self) -> None:
        """End it, if it has not ended."""
        self.line.close()
        self._process.terminate()
        self._process.join()


def _in_processes(
    fleet: Fleet, progress: Told, stop: Callable[[], bool], together: int
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
                working[worker.line] = worker
            for line in wait(list(working), _ASKED_EVERY):
                outcome = working[line].read(progress)
                if outcome is not None:
                    over = working.pop(line)
                    over.close()
                    yield over.variant.name, outcome
    finally:
        for worker in working.values():
            worker.close()


def _work(fleet: Fleet, line: Connection) -> None:
    """What such a process does."""

    def say(said: Progress | VariantResult | str) -> None:
        line.send_bytes(msgspec.msgpack.encode((type(said).__name__, said)))

    say(_tried(fleet, fleet.variants[0], say, line.poll))
