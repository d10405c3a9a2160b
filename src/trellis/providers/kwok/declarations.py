"""What a KwokNodeGroup declares: the group, the Nodes that are created for it, and how they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.kinds.kwok_node_group import (
    DEFAULT_BOOT_TIME,
    GROUP_LABEL,
    KWOK_KEY,
    GroupFailure,
    KwokNodeGroup,
)
from trellis.base.durations import parse_span
from trellis.core.nodes.node_groups import NodeGroup
from trellis.providers.declared.groups import build_node_document, build_node_group
from trellis.providers.kwok.instances import KWOK_VALUE


class DeclaredGroup(msgspec.Struct, frozen=True):
    """A declared group: its description, the Node that is created for it, and how it fails.

    `other_document` is the Node that is created instead where nodes come up with another shape.
    """

    group: NodeGroup
    document: dict[str, Any]
    other_document: dict[str, Any]
    fails: GroupFailure | None = None


def build_kwok_group(document: Mapping[str, Any]) -> DeclaredGroup:
    """The group of a valid document."""
    written = msgspec.convert(document, KwokNodeGroup)
    spec, name = written.spec, written.metadata.name
    labels = {GROUP_LABEL: name, KWOK_KEY: KWOK_VALUE}
    node = build_node_document(spec, labels, spec.resources)
    group = build_node_group(name, spec, node, parse_span(spec.boot_time or DEFAULT_BOOT_TIME))
    other = spec.fails.resources if spec.fails is not None else None
    return DeclaredGroup(group, node, build_node_document(spec, labels, other or spec.resources), spec.fails)
