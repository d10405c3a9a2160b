"""The dumps that the guide "why did it do that" reads are those that the tests of explanations are about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.builders.collected_clusters import Cluster, search, shop, spare
from support.builders.collected_node_groups import pools

DUMPS = Path(__file__).resolve().parents[3] / "examples" / "explain"


@pytest.mark.parametrize(
    ("name", "cluster"), [("shop", shop()), ("search", search()), ("spare", spare()), ("pools", pools())]
)
def test_a_dump_of_the_guide_is_the_one_of_the_tests(name: str, cluster: Cluster) -> None:
    lines, dump = b"".join(cluster.lines()), DUMPS / f"{name}.jsonl"
    if os.environ.get("REWRITE_GOLDEN"):
        dump.write_bytes(lines)
    assert dump.read_bytes() == lines, "run with REWRITE_GOLDEN=1 and look at the guide"
