"""What a Buffer will do, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.resolve import (
    EffectiveBuffer,
    FixedReplicas,
    GivenPods,
    NodeClassTotals,
    PercentOfReplicas,
    Strategy,
)
from trellis.base.counted import counted
from trellis.base.readable import RESOURCE_WORDS
from trellis.core.buffers import BufferSettings, NodesOfClass, Said, class_labels
from trellis.core.buffers.node_classes import NODE_CLASS_CONTRADICTED, Chunks, split
from trellis.core.buffers.shapes import given_shape
from trellis.core.fit.resources import PODS
from trellis.core.model.patches import quantity_text
from trellis.reports.describe.words import listed, span


def buffer_sentences(buffer: EffectiveBuffer) -> list[str]:
    """How much room, how it is counted, and when."""
    if not buffer.is_ours:
        return [f"Is left alone: {buffer.type} is not a type that Trellis provisions."]
    found = [_room(buffer), *_shape(buffer), _strategy(buffer)]
    if buffer.schedule is not None:
        windows = [f"begin at {window.start} and last {span(window.duration)}" for window in buffer.schedule.windows]
        found.append(f"Only in windows that {listed(windows, 'or')}; outside of them it counts for nothing.")
    return found


def _room(buffer: EffectiveBuffer) -> str:
    target = f"{buffer.target.kind} {buffer.target.name}" if buffer.target else ""
    match buffer.capacity:
        case FixedReplicas(count=count):
            return f"Keeps room for {counted(count, 'further pod')} of {target}."
        case PercentOfReplicas(percent=percent, least=least, most=most):
            limits = [f"at least {least}"] if least else []
            limits += [f"at most {most}"] if most is not None else []
            within = f", {listed(limits)}" if limits else ""
            return f"Keeps room for further pods of {target}: {percent} % of its replicas, rounded up{within}."
        case NodeClassTotals() as totals:
            return _totals(totals, target)
        case GivenPods(count=count) as pods:
            return f"Keeps room for {counted(count, 'pod')} of the given spec{_each(pods)}."
        case _:
            return "Keeps no room: it states no capacity that can be read."


def _totals(totals: NodeClassTotals, target: str) -> str:
    labels = [f"{key}={value}" for key, value in sorted(totals.node_selector.items())]
    where = [f"of {target}"] if target else []
    where += [f"labelled {listed(labels)}"] if labels else []
    room = f"Keeps up to {totals.cpu} CPU and {totals.memory} memory on nodes {listed(where)}"
    if totals.chunk is None:
        return f"{room}, in equal chunks that fit the smallest of them."
    chunk = [f"{size} {RESOURCE_WORDS.get(name, name)}" for name, size in totals.chunk.items()]
    chunks = split(totals, NodesOfClass(), BufferSettings())
    many = f"; that makes {counted(chunks.count, 'chunk')}" if isinstance(chunks, Chunks) else ""
    return f"{room}, in chunks of {listed(chunk)}{many}."


def _each(pods: GivenPods) -> str:
    """What one of the pods requests."""
    shape = given_shape(pods.pod_spec)
    if isinstance(shape, Said):
        return ""
    amounts = [f"{quantity_text(name, amount)} {RESOURCE_WORDS.get(name, name)}" for name, amount in shape.amounts]
    requested = [text for text, (name, _) in zip(amounts, shape.amounts, strict=True) if name != PODS]
    return f": {listed(requested)} each" if requested else ""


def _shape(buffer: EffectiveBuffer) -> Iterator[str]:
    """What a chunk is shaped like, or which nodes it is for."""
    target = buffer.target
    if target is None:
        return
    match buffer.capacity:
        case FixedReplicas() | PercentOfReplicas():
            yield "Each is as big as the pods that will come: like the newest one, with the recommendation in force."
        case NodeClassTotals():
            labels = class_labels(buffer, BufferSettings())
            if isinstance(labels, Said) and labels.reason is NODE_CLASS_CONTRADICTED:
                yield f"No node can be one of these: {labels}."
            elif isinstance(labels, Said):
                yield f"By which label nodes show a {target.kind} has to be set, with --node-class-labels."
            else:
                shown = sorted(f"{key}={value}" for key, value in labels.items())
                yield f"These are nodes labelled {listed(shown)}."


def _strategy(buffer: EffectiveBuffer) -> str:
    if buffer.strategy is Strategy.KEEP_EMPTY:
        return "The room is kept on top of what runs: when pods fill it, new room is made."
    if buffer.filled_by is None:
        return "The room counts whether it is used or not: when pods fill it, none is added."
    return f"Pods that match {buffer.filled_by} fill the room; when they do, none is added. Other pods fill nothing."
