"""How are all tests run? With little spent on anything but the tests themselves."""

from __future__ import annotations

import gc
import sys

from hypothesis import settings

# Where Python is told to keep no bytecode, each worker would rewrite the asserts of all modules in every run.
sys.dont_write_bytecode = False

# So many examples unless a test says otherwise. `--hypothesis-profile=thorough` is for a change of what they are about.
settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What was collected lives to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
