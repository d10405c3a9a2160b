"""When may the cycle collector look for garbage? Neither through what stays, nor while a pass makes what it needs.

Nothing that a controller keeps of the cluster is in a cycle, so all of it goes when nobody needs it any more. The
collector does not know that, and stops every thread while it looks: with 100,000 containers a third of a second, again
and again while a pass makes the documents of 20,000 statuses.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def set_aside() -> None:
    """Never look again through what there is now. For once or twice in a life: garbage that is there stays as well."""
    gc.freeze()


@contextmanager
def paused() -> Iterator[None]:
    """Look for no garbage meanwhile, in any thread."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
