"""The worked number in the concepts is what the code makes of such usage."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from trellis.core.recommend.amounts import CPU
from trellis.core.recommend.protocol import Rows
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.usage.histograms import bins
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts.md"
ROW = re.compile(r"^\| (\d+) (hour|day)s? \| (\S+) \| (\d+)m \| (\d+)m \| (\d+)m \|$", re.MULTILINE)
NOW = 1_700_000_000.0
MINUTES = {"hour": 60, "day": 1440}
HALF_A_CORE = 0.5


def after(minutes: int) -> list[float]:
    """Lower bound, target and upper bound for half a core a minute."""
    times = NOW - 60.0 * np.arange(minutes, -1, -1, dtype=np.float64)
    count = len(times)
    used = np.full(count, HALF_A_CORE)
    model = UsageModel()
    model.track_pods("shop", [TrackedPod("shop", "web-0", "uid", "web", True, (TrackedContainer("app"),))], NOW)
    model.ingest(Samples(["shop"] * count, ["web-0"] * count, ["app"] * count, times, used, used * 1e9), NOW)
    recommender, view = DefaultRecommender(), model.view()
    defaults = {parameter.name: parameter.default for parameter in recommender.parameters}
    estimate = recommender.estimate(Rows.from_view(view, np.arange(len(view)), np.ones(len(view))), defaults, NOW)
    bounds: list[float] = estimate.bounds[:, CPU, 0].tolist()
    return bounds


def test_there_are_three_rows() -> None:
    assert len(ROW.findall(PAGE.read_text())) == 3


@pytest.mark.parametrize("row", ROW.findall(PAGE.read_text()), ids=lambda row: f"{row[0]} {row[1]}")
def test_a_row_of_the_table_is_what_the_recommender_says(row: tuple[str, ...]) -> None:
    number, unit, confidence, *amounts = row
    minutes = int(number) * MINUTES[unit]
    top, _, bottom = confidence.partition("/")
    assert int(top) / int(bottom or 1) == minutes / 1440
    assert after(minutes) == list(map(float, amounts))


def test_the_histogram_bin_is_the_one_that_the_page_names() -> None:
    text = " ".join(PAGE.read_text().split())
    [begins, ends] = re.findall(r"begins at (\d\.\d+) cores and ends at (\d\.\d+),", text)[0]
    index = int(bins.CPU_BINS.find_bins(np.array([HALF_A_CORE]))[0])
    starts = bins.CPU_BINS.starts[index : index + 2]
    assert [f"{start:.3f}" for start in starts] == [begins, ends]
