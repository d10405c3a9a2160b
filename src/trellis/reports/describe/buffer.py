"""What a Buffer will do, in sentences."""

from __future__ import annotations

from trellis.api.resolve import (
    EffectiveBuffer,
    FixedReplicas,
    GivenPods,
    NodeClassTotals,
    PercentOfReplicas,
    Strategy,
)
from trellis.reports.describe.words import RESOURCE_WORDS, counted, listed, span


def buffer_sentences(buffer: EffectiveBuffer) -> list[str]:
    """How much room, how it is counted, and when."""
    if not buffer.is_ours:
        return [f"Is left alone: {buffer.type} is not a type that Trellis provisions."]
    found = [_room(buffer), _strategy(buffer)]
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
        case GivenPods(count=count):
            return f"Keeps room for {counted(count, 'pod')} of the given spec."
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
    return f"{room}, in chunks of {listed(chunk)}."


def _strategy(buffer: EffectiveBuffer) -> str:
    if buffer.strategy is Strategy.KEEP_EMPTY:
        return "The room is kept on top of what runs: when pods fill it, new room is made."
    if buffer.filled_by is None:
        return "The room counts whether it is used or not: when pods fill it, none is added."
    return f"Pods that match {buffer.filled_by} fill the room; when they do, none is added. Other pods fill nothing."
