"""Keeps Python's cycle collector away from long-lived objects and out of running passes.

Nothing that a controller keeps of the cluster is part of a reference cycle, so reference counting frees all of it. The
cycle collector does not know that and stops every thread while it searches: a third of a second with 100,000
containers, again and again while a pass builds the documents of 20,000 statuses.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def freeze_live_objects() -> None:
    """Never look again through what there is now. For once or twice in a life: garbage that is there stays as well."""
    gc.freeze()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Look for no garbage meanwhile, in any thread."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
