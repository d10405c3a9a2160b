"""What `trellis check --explain` says of a group of kwok nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.kwok_nodes import failing, group
from trellis.api.kinds.kwok_node_group import GroupFailureMode, KwokNodeGroup
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects


def sentences(document: dict[str, Any]) -> list[str]:
    [described] = describe_objects(check([ManifestSource("groups.yaml", msgspec.json.encode(document))]))
    lines: list[str] = described["sentences"]
    return lines


def test_a_group_is_reported_in_sizes_shape_and_time() -> None:
    assert sentences(group(minSize=1, price=0.2, taints=[{"key": "dedicated", "effect": "NoSchedule"}])) == [
        "A group of 1 to 10 nodes with 4 cpu and 16Gi memory each.",
        "A node is up 30 s after it was ordered.",
        "A node costs 0.2 an hour.",
        "Keeps away pods that do not tolerate dedicated:NoSchedule.",
    ]


@pytest.mark.parametrize("how", [mode for mode in GroupFailureMode if mode is not GroupFailureMode.OTHER_SHAPE])
def test_every_mishap_is_reported(how: str) -> None:
    assert sentences(failing(how))[-1].startswith("Goes wrong: ")
    assert sentences(failing(how, after=2))[-1].endswith(", beyond the first 2.")


def test_nodes_of_another_shape_are_reported_with_it() -> None:
    other = failing("OtherShape", resources={"cpu": "1", "memory": "1Gi"})
    assert sentences(other)[-1] == "Goes wrong: nodes come up with 1 cpu and 1Gi memory."
    assert msgspec.convert(other, KwokNodeGroup).spec.fails is not None
