"""The cycle collector is out of the way for as long as it is asked to be, and no longer."""

from __future__ import annotations

import gc

import pytest

from trellis.base.python_gc import pause_garbage_collection


def test_the_collector_is_disabled_inside_the_context_and_enabled_after_it() -> None:
    with pause_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="no"), pause_garbage_collection():
        raise ValueError("no")
    assert gc.isenabled()


def test_the_inner_of_two_pauses_does_not_end_the_outer() -> None:
    with pause_garbage_collection():
        with pause_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
