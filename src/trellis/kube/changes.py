"""What happened to an object, as handlers are told it: one value per change, whether a watch or a list brought it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

import msgspec

from trellis.core.model.keys import Key, T
from trellis.core.model.store import Snapshot


class Change(msgspec.Struct, Generic[T], frozen=True):
    """`old` is None for an object that was not known, `new` for one that is gone.

    Between two looks there is one change: a list after a broken watch brings the last state and none before it.
    """

    key: Key
    old: T | None
    new: T | None


def differences(before: Snapshot[T], after: Snapshot[T]) -> Iterator[Change[T]]:
    """Every change from one state to the other: first what is gone, so that a name is free before it is used again."""
    for key, old in before.objects.items():
        new = after.objects.get(key)
        if new is None or new.metadata.uid != old.metadata.uid:
            yield Change(key, old, None)
    for key, new in after.objects.items():
        known = before.objects.get(key)
        if known is new:
            continue
        same = known is not None and known.metadata.uid == new.metadata.uid
        yield Change(key, known if same else None, new)
