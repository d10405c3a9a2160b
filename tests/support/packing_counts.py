"""How often pods that are alike are packed: the work of a placement, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trellis.core.fit import packing


def counted_packing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many groups of pods alike have been packed since this was last asked."""
    count = 0
    put = packing._pack_group

    def count_call(*args: Any) -> Any:
        nonlocal count
        count += 1
        return put(*args)

    def read_count() -> int:
        nonlocal count
        result, count = count, 0
        return result

    monkeypatch.setattr(packing, "_pack_group", count_call)
    return read_count
