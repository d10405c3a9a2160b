"""Compares fit with the real scheduler on 1,000 random clusters of pods with rules about each other.

On one control plane, fifty clusters at a time.
"""

from __future__ import annotations

import sys
import time

from bench.measurement import ROOT, CannotMeasure, Row
from testbed.control_plane import ControlPlane
from testbed.errors import HarnessError
from testbed.scratch import scratch

CLUSTERS = 1000
AT_A_TIME = 50
PODS_EACH = 8


def measure() -> list[Row]:
    # The clusters are drawn by what the tests draw them with.
    sys.path.append(str(ROOT / "tests"))
    from support.oracles.scheduler import agreement  # noqa: PLC0415

    judged = placed = 0
    differences: list[str] = []
    start = time.perf_counter()
    try:
        with scratch() as directory, ControlPlane(directory) as plane:
            for first in range(0, CLUSTERS, AT_A_TIME):
                compared = agreement(plane.cluster, range(first, first + AT_A_TIME), PODS_EACH)
                judged, placed = judged + compared.decided, placed + compared.placed
                differences += compared.differences
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    for difference in differences:
        print(difference, file=sys.stderr)
    seconds = time.perf_counter() - start
    what = f"fit and the scheduler: {CLUSTERS:,} clusters, {judged:,} pods, {placed:,} placed, {seconds:.0f} s"
    return [Row(what, f"{len(differences)} differences", bar="0", met=not differences)]
