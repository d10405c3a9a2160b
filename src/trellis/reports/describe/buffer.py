"""Describes a Buffer in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.resolve import EffectiveBuffer, FixedPods, FixedReplicas, NodeClassTotals, PercentOfReplicas, Strategy
from trellis.base.wording import RESOURCE_WORDS, pluralize
from trellis.core.buffers import BufferSettings, DetailedReason, NodeClassFacts, find_class_labels
from trellis.core.buffers.node_classes import NODE_CLASS_CONTRADICTED, NodeClassChunks, split_into_chunks
from trellis.core.buffers.shapes import shape_from_spec
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.fit.resources import PODS
from trellis.reports.text.phrases import format_duration, join_words


def describe_buffer(buffer: EffectiveBuffer) -> list[str]:
    """How much capacity it asks for, how that is counted, and when."""
    if not buffer.is_active_capacity:
        return [f"Is ignored: {buffer.type} is not a type that Trellis provisions."]
    sentences = [_describe_capacity(buffer), *_describe_shape(buffer), _describe_strategy(buffer)]
    if buffer.schedule is not None:
        windows = [
            f"begin at {window.start} and last {format_duration(window.duration)}" for window in buffer.schedule.windows
        ]
        sentences.append(f"It has chunks only in windows that {join_words(windows, 'or')}.")
    return sentences


def _describe_capacity(buffer: EffectiveBuffer) -> str:
    target = f"{buffer.target.kind} {buffer.target.name}" if buffer.target else ""
    match buffer.capacity:
        case FixedReplicas(count=count):
            return f"Keeps spare capacity for {pluralize(count, 'further pod')} of {target}."
        case PercentOfReplicas(percent=percent, minimum=least, maximum=most):
            limits = [f"at least {least}"] if least else []
            limits += [f"at most {most}"] if most is not None else []
            within = f", {join_words(limits)}" if limits else ""
            return (
                f"Keeps spare capacity for further pods of {target}: {percent} % of its replicas, rounded up{within}."
            )
        case NodeClassTotals() as totals:
            return _describe_totals(totals, target)
        case FixedPods(count=count) as pods:
            return f"Keeps spare capacity for {pluralize(count, 'pod')} of the given spec{_describe_size(pods)}."
        case _:
            return "Keeps no spare capacity: its capacity is invalid."


def _describe_totals(totals: NodeClassTotals, target: str) -> str:
    labels = [f"{key}={value}" for key, value in sorted(totals.node_selector.items())]
    where = [f"of {target}"] if target else []
    where += [f"labelled {join_words(labels)}"] if labels else []
    capacity = f"Keeps up to {totals.cpu} CPU and {totals.memory} memory on nodes {join_words(where)}"
    if totals.chunk is None:
        return f"{capacity}, in equal chunks that fit the smallest of them."
    chunk = [f"{size} {RESOURCE_WORDS.get(name, name)}" for name, size in totals.chunk.items()]
    chunks = split_into_chunks(totals, NodeClassFacts(), BufferSettings())
    count_phrase = f"; that makes {pluralize(chunks.count, 'chunk')}" if isinstance(chunks, NodeClassChunks) else ""
    return f"{capacity}, in chunks of {join_words(chunk)}{count_phrase}."


def _describe_size(pods: FixedPods) -> str:
    """The requests of one pod."""
    shape = shape_from_spec(pods.pod_spec)
    if isinstance(shape, DetailedReason):
        return ""
    amounts = [
        f"{format_resource_amount(name, amount)} {RESOURCE_WORDS.get(name, name)}" for name, amount in shape.amounts
    ]
    requested = [text for text, (name, _) in zip(amounts, shape.amounts, strict=True) if name != PODS]
    return f": {join_words(requested)} each" if requested else ""


def _describe_shape(buffer: EffectiveBuffer) -> Iterator[str]:
    """The shape of a chunk, or the nodes that it is for."""
    target = buffer.target
    if target is None:
        return
    match buffer.capacity:
        case FixedReplicas() | PercentOfReplicas():
            yield "Each chunk has the size of a new pod: the spec of the newest one, with the current recommendation."
        case NodeClassTotals():
            labels = find_class_labels(buffer, BufferSettings())
            if isinstance(labels, DetailedReason) and labels.reason is NODE_CLASS_CONTRADICTED:
                yield f"No node can be one of these: {labels}."
            elif isinstance(labels, DetailedReason):
                yield f"The node label for a {target.kind} is unknown: set --node-class-labels."
            else:
                shown = sorted(f"{key}={value}" for key, value in labels.items())
                yield f"These are nodes labelled {join_words(shown)}."


def _describe_strategy(buffer: EffectiveBuffer) -> str:
    if buffer.strategy is Strategy.KEEP_EMPTY:
        return "The capacity is kept on top of running pods: when pods use it, it is replaced."
    if buffer.filled_by is None:
        return "The capacity counts whether used or not: when pods use it, it is not replaced."
    return f"Pods that match {buffer.filled_by} use the capacity, and it is not replaced. Other pods do not use it."
