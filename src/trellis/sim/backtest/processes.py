"""How do several processes share batches? One process for each batch, so many at a time; what one says is told.

A batch that fails is told of, and the others go on. Who wants to stop gets what is done by then.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import msgspec

from trellis.base.errors import TrellisError
from trellis.sim.backtest.batch import Batch, BatchResult, Stopped, run_batch
from trellis.sim.undisturbed import start_undisturbed

# How often somebody who might want to stop is asked, in seconds.
_ASKED_EVERY: Final = 0.1


class Failed(msgspec.Struct, frozen=True):
    """A batch of which nothing came, and why."""

    why: str


Outcome = BatchResult | Failed
Told = Callable[[int, float], None]


def run_batches(
    batches: Sequence[Batch], processes: int, told: Told, stop: Callable[[], bool]
) -> Iterator[tuple[int, Outcome]]:
    """What came of each batch, by its number, as they end; `told` is told which part of a batch is done."""
    if min(processes, len(batches)) > 1:
        yield from _in_processes(batches, processes, told, stop)
        return
    for number, batch in enumerate(batches):
        if stop():
            return

        def tell(share: float, number: int = number) -> None:
            if stop():
                raise Stopped
            told(number, share)

        yield number, _tried(batch, tell)


def _tried(batch: Batch, tell: Callable[[float], None]) -> Outcome:
    try:
        return run_batch(batch, tell)
    except TrellisError as error:
        return Failed(str(error))
    except MemoryError:
        return Failed("there is too little memory; use fewer --processes")
    except Exception as error:  # noqa: BLE001 - a recommender of others may raise anything, and costs no other batch
        return Failed(f"{type(error).__name__}: {error}")


def _in_processes(
    batches: Sequence[Batch], processes: int, told: Told, stop: Callable[[], bool]
) -> Iterator[tuple[int, Outcome]]:
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(range(len(batches))))
    working: dict[Any, tuple[int, Any]] = {}
    stopping = False
    try:
        while working or (waiting and not stopping):
            if not stopping and stop():
                stopping = True
                for line in working:
                    line.send(None)
            while waiting and len(working) < processes and not stopping:
                number = waiting.pop()
                mine, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs,), name=f"batch {number}", daemon=True)
                start_undisturbed(process)
                theirs.close()
                mine.send(batches[number])
                working[mine] = (number, process)
            for line in wait(list(working), _ASKED_EVERY):
                number, process = working[line]
                said = _heard(line, process)
                if isinstance(said, float):
                    told(number, said)
                    continue
                del working[line]
                process.join()
                yield number, said
    finally:
        for _, process in working.values():
            process.terminate()
            process.join()


def _heard(line: Any, process: Any) -> float | Outcome:
    try:
        said: float | Outcome = line.recv()
    except (EOFError, OSError):
        process.join()
        why = f"its process ended with exit code {process.exitcode}"
        return Failed(
            f"{why}: there may be too little memory; use fewer --processes" if process.exitcode == -9 else why
        )
    return said


def _work(line: Connection) -> None:
    """What such a process does."""
    batch: Batch = line.recv()

    def tell(share: float) -> None:
        if line.poll():
            raise Stopped
        line.send(share)

    line.send(_tried(batch, tell))
