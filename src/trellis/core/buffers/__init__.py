"""Translates Buffers into chunks: virtual pods that stand for the spare capacity a Buffer asks for.

    translation = translate(resolve_buffer(buffer), facts, now, settings)
    translation = apply_quotas({key: (created, translation)}, quotas)[key]
    status = build_status(translation, buffer.status, generation, now)

Pure functions of Buffer, target and nodes: nothing here reads a cluster or knows what time it is. A node autoscaler
reads the pods in the status.
"""

from trellis.base.reasons import DetailedReason
from trellis.core.buffers.capacity_buffers import (
    ExportedBuffer,
    build_capacity_status,
    build_pod_template,
    export_buffer,
    is_served,
    managed_template_name,
    translate_capacity_buffer,
)
from trellis.core.buffers.chunks import Translation, find_skip_reason, sum_filling_amounts, sum_filling_pods, translate
from trellis.core.buffers.node_classes import find_class_labels, observe_node_class
from trellis.core.buffers.pods import find_newest_live, is_live
from trellis.core.buffers.quotas import QuotaAllowance, QuotaClaim, apply_allowance, apply_quotas, divide_quotas
from trellis.core.buffers.status import build_status, is_status_current, read_last_shape
from trellis.core.buffers.target_kinds import TargetKind, TargetReading, selector_in, template_in
from trellis.core.buffers.translation_facts import BufferSettings, NodeClassFacts, TargetFacts, TranslationFacts

__all__ = [
    "BufferSettings",
    "DetailedReason",
    "ExportedBuffer",
    "NodeClassFacts",
    "QuotaAllowance",
    "QuotaClaim",
    "TargetFacts",
    "TargetKind",
    "TargetReading",
    "Translation",
    "TranslationFacts",
    "apply_allowance",
    "apply_quotas",
    "build_capacity_status",
    "build_pod_template",
    "build_status",
    "divide_quotas",
    "export_buffer",
    "find_class_labels",
    "find_newest_live",
    "find_skip_reason",
    "is_live",
    "is_served",
    "is_status_current",
    "managed_template_name",
    "observe_node_class",
    "read_last_shape",
    "selector_in",
    "sum_filling_amounts",
    "sum_filling_pods",
    "template_in",
    "translate",
    "translate_capacity_buffer",
]
