"""The worked example in the page about sizes is what the code makes of such a pod."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.builders.pods import Document, container, limit_ranges, pod, policies, read_shape
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.sizing import size_pod

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "sizing.md"
ROWS = re.findall(r"^\| (.+?) \| (\d+)m \| (\d+)m \| (\d+)m \| (\d+)m \|$", PAGE.read_text(), re.MULTILINE)
BOUNDS = ("none", "maxAllowed", "LimitRange", "own request")


def test_there_are_four_rows_each_with_its_bound() -> None:
    assert len(ROWS) == len(BOUNDS)
    assert all(bound in row[0] for bound, row in zip(BOUNDS, ROWS, strict=True))


@pytest.mark.parametrize("count", range(len(BOUNDS)), ids=BOUNDS)
def test_a_row_of_the_table_is_what_the_pod_gets(count: int) -> None:
    in_force = BOUNDS[: count + 1]
    own: Document = {"resources": {"requests": {"cpu": "1"}}} if "own request" in in_force else {}
    maximum: Document = {"maxAllowed": {"cpu": "1500m"}} if "maxAllowed" in in_force else {}
    ranges: list[Document] = [{"type": "Container", "max": {"cpu": "2"}}] if "LimitRange" in in_force else []
    mesh = container("mesh", {"cpu": "100m"}, {"cpu": "200m"})
    document = pod(container("app", {"cpu": "500m"}, {"cpu": "1"}), mesh, **own)
    advice = [RecommendedResources("app", {"cpu": 1800}), RecommendedResources("mesh", {"cpu": 150})]
    size = size_pod(read_shape(document), advice, policies({"containerName": "app", **maximum}), limit_ranges(*ranges))
    amounts = [amount["cpu"] for container in size.containers for amount in (container.requests, container.limits)]
    assert amounts == list(map(int, ROWS[count][1:]))
