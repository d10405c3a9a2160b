"""How are all tests run? With little spent on anything but the tests themselves, and alike everywhere."""

from __future__ import annotations

import gc
import os
import sys

from hypothesis import HealthCheck, settings

# Where Python is told to keep no bytecode, each worker would rewrite the asserts of all modules in every run.
sys.dont_write_bytecode = False

# How wide the terminal is, and what somebody likes to see in it, is no part of what is tested.
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "KUBECONFIG"):
    os.environ.pop(_name, None)

# So many examples unless a test says otherwise, and always the same: a run that fails tells of its change, and not of
# its luck. `--hypothesis-profile=thorough` looks further and elsewhere each time, for a change of what they are about.
# How long one takes is the machine's business: no example has a deadline, and none is too slow to be made.
_AT_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _AT_ANY_SPEED, max_examples=30, derandomize=True)
settings.register_profile("thorough", _AT_ANY_SPEED, max_examples=1000)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What was collected lives to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
