"""Published traces, where there are any: all of them can be read, and a backtest of some says what it should."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from trellis.sim.backtest.request import BacktestTerms, build_request
from trellis.sim.backtest.run import backtest
from trellis.sources.series.files import find_parts, read_part
from trellis.sources.series.series import Series

TRACES = os.environ.get("TRELLIS_TRACES")

pytestmark = pytest.mark.skipif(not TRACES, reason="TRELLIS_TRACES names no directory with traces")


def read() -> list[Series]:
    manifests = sorted(Path(TRACES or "").glob("*/manifest.csv"))
    parts = find_parts([str(manifest.parent) for manifest in manifests])
    assert parts.problems == []
    result = [read_part(part) for part in parts.parts]
    assert [problem for series in result for problem in series.problems] == []
    return [series for item in result for series in item.series]


def test_every_series_is_read_and_makes_sense() -> None:
    series = read()
    assert len(series) > 5
    for one_series in series:
        assert (np.diff(one_series.times) > 0).all()
        assert one_series.has_cpu or one_series.has_memory
        assert 1.0 <= one_series.interval <= 3600.0


def test_more_margin_is_dearer_and_safer() -> None:
    request = build_request(["default"], [], ["default.margin=0,0.5"], BacktestTerms(step=6 * 3600.0))
    result = backtest(request, [], read()[:20])
    cpu = [variant.cpu for variant in result.variants]
    assert all(score is not None and score.series > 10 for score in cpu)
    figures = [score.figures for score in cpu if score is not None]
    _, least, most = figures
    assert least.footprint < most.footprint
    assert least.time_over > most.time_over
