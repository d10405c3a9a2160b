"""Why has a Buffer so many chunks, in sentences? In the order in which the number is made."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.counted import counted
from trellis.core.explain.buffer_parts import Asked, BufferPart
from trellis.reports.describe.words import listed
from trellis.reports.explain_words import amounts


def count_lines(buffer: BufferPart) -> Iterator[str]:
    """How the number of chunks comes about, in the order in which it is made."""
    if buffer.asked is not None:
        yield _asked(buffer, buffer.asked)
    if buffer.filled_by:
        what = (
            f", which request {amounts(buffer.filled)}" if buffer.filled else "; there are none that request anything"
        )
        yield f"Pods that match {buffer.filled_by} fill it{what}."
    if buffer.schedule is not None and not buffer.schedule.open:
        yield "Outside its schedule it counts for nothing."
    if buffer.limited_by:
        yield f"Quotas of the namespace leave less: {listed(buffer.limited_by)}."
    if buffer.wanted != buffer.chunks:
        yield f"So it stands for {counted(buffer.chunks, 'chunk')} of {buffer.wanted}."
    yield _counting(buffer)


def _asked(buffer: BufferPart, asked: Asked) -> str:
    match asked.way:
        case "exactly":
            return f"Its capacity asks for exactly {asked.count}."
        case "percent":
            bounds = [f"at least {asked.least}"] if asked.least else []
            bounds += [f"at most {asked.most}"] if asked.most is not None else []
            within = f", {listed(bounds)}" if bounds else ""
            if asked.replicas is None:
                return f"{asked.percent} % of the replicas of {buffer.target}{within}; how many they are is not known."
            return f"{asked.percent} % of {counted(asked.replicas, 'replica')}, rounded up{within}: {asked.count}."
        case "nodeClass":
            return _of_class(asked)
        case _:
            return f"Its capacity asks for {counted(asked.count, 'pod')} of the given spec."


def _of_class(asked: Asked) -> str:
    up_to = f"Up to {amounts(asked.totals)} in all"
    if not asked.count:
        return f"{up_to} is asked for."
    if asked.chunk:
        return f"{up_to}, in chunks of {amounts(asked.chunk)}: {asked.count} exceed neither total."
    if not asked.nodes:
        return f"{up_to}, in as few equal chunks as fit a small node: {asked.count}."
    which = f"the smallest of its {asked.nodes} nodes" if asked.nodes > 1 else "its only node"
    smallest = f"{which}, which leaves {amounts(asked.smallest)} for pods"
    return f"{up_to}, in as few equal chunks as fit {smallest}: {asked.count}."


def _counting(buffer: BufferPart) -> str:
    if buffer.filled_by:
        return f"{buffer.strategy}: pods that match fill the room, and none is added; other pods fill nothing."
    if buffer.on_top:
        return f"{buffer.strategy}: the room is kept on top of what runs; when pods fill it, new room is made."
    return f"{buffer.strategy}: the room counts whether it is used or not; when pods fill it, none is added."
