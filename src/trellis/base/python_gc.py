"""Keeps Python's cycle collector away from long-lived objects and out of running passes.

The cluster state of a controller has no reference cycles, so reference counting frees all of it. The cycle collector
searches it all the same and stops every thread meanwhile: a third of a second with 100,000 containers, repeatedly while
a pass builds the documents of 20,000 statuses.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def freeze_live_objects() -> None:
    """Exclude all current objects from collection. Call it at most twice: existing garbage is never freed."""
    gc.freeze()


def collect_frozen_objects() -> None:
    """Free what has become garbage since it was frozen, such as a component that has ended."""
    gc.unfreeze()
    gc.collect()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable the cycle collector for all threads while the context is open."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
