"""Which pods does a Buffer stand for? From Buffer, target and nodes to pods, as a pure function.

    found = translate(resolve_buffer(buffer), facts, now, settings)
    found = settled({key: (created, found)}, quotas)[key]
    status = status_of(found, buffer.status, generation, now)

Nothing here reads a cluster or knows what time it is. Whoever provisions the pods reads them in the status.
"""

from trellis.core.buffers.capacity_buffers import (
    capacity_status,
    is_served,
    managed_template_name,
    translate_capacity_buffer,
)
from trellis.core.buffers.elsewhere import Elsewhere, pod_template, said_elsewhere
from trellis.core.buffers.facts import Facts, FoundTarget, NodesOfClass
from trellis.core.buffers.filling import filled_by, filled_with
from trellis.core.buffers.newest import is_live, newest_live
from trellis.core.buffers.node_classes import class_labels, nodes_of_class
from trellis.core.buffers.quotas import Allowance, QuotaClaim, allot
from trellis.core.buffers.said import Said
from trellis.core.buffers.settings import BufferSettings
from trellis.core.buffers.status import is_written, last_shape, status_of
from trellis.core.buffers.target_kinds import TargetKind, TargetReading, selector_in, template_in
from trellis.core.buffers.translate import left_alone, translate
from trellis.core.buffers.translation import Translation, settled, within_quotas

__all__ = [
    "Allowance",
    "BufferSettings",
    "Elsewhere",
    "Facts",
    "FoundTarget",
    "NodesOfClass",
    "QuotaClaim",
    "Said",
    "TargetKind",
    "TargetReading",
    "Translation",
    "allot",
    "capacity_status",
    "class_labels",
    "filled_by",
    "filled_with",
    "is_live",
    "is_served",
    "is_written",
    "last_shape",
    "left_alone",
    "managed_template_name",
    "newest_live",
    "nodes_of_class",
    "pod_template",
    "said_elsewhere",
    "selector_in",
    "settled",
    "status_of",
    "template_in",
    "translate",
    "translate_capacity_buffer",
    "within_quotas",
]
