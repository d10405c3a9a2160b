"""What became of each workload? A table for every variant, of which a script shows one."""

from __future__ import annotations

from html import escape

from trellis.reports.html.typeset import difference, number_cell
from trellis.reports.measures import Measure
from trellis.reports.simulation_compared import scales
from trellis.reports.simulation_headline import called, side_by_side
from trellis.reports.simulation_measures import (
    CPU_OVER,
    CPU_REQUESTED,
    CPU_USED,
    EVICTIONS,
    MEMORY_OVER,
    MEMORY_REQUESTED,
    MEMORY_USED,
    MONEY,
    OOM_KILLS,
    OVERLOAD,
    REPLICAS,
    RESIZES,
    RESTARTS,
    SCALINGS,
)
from trellis.sim.results import RunResult, Totals, WorkloadResult

_CPU = (("request", CPU_REQUESTED), ("used", CPU_USED), ("time over", CPU_OVER))
_MEMORY = (("request", MEMORY_REQUESTED), ("used", MEMORY_USED), ("time over", MEMORY_OVER))
_EVENTS = (("OOM kills", OOM_KILLS), ("evictions", EVICTIONS), ("restarts", RESTARTS), ("resizes", RESIZES))
_PODS = (("mean", REPLICAS), ("changes", SCALINGS), ("overload", OVERLOAD))
_Headed = tuple[tuple[str, Measure[Totals]], ...]


def workload_table(result: RunResult) -> str:
    """Namespace and name, what it is, cost, CPU, memory and events; a body for each variant."""
    groups = _groups(result)
    compared = ["change"] if len(result.variants) > 1 else []
    over = f'<th class="over part" colspan="{1 + len(compared)}">Requests, {escape(result.currency)}</th>'
    over += "".join(f'<th class="over part" colspan="{len(headed)}">{name}</th>' for name, headed in groups)
    titles = ["cost", *compared]
    starts = {0}
    for _, headed in groups:
        starts.add(len(titles))
        titles += [title for title, _ in headed]
    heads = "".join(
        f'<th scope="col" data-sort="number" data-column="{number + 2}"{_part(number in starts)}>{title}</th>'
        for number, title in enumerate(titles)
    )
    head = (
        f'<thead><tr><td colspan="2"></td>{over}</tr><tr><th scope="col" data-sort="text" data-column="0">Workload</th>'
        f'<th scope="col" class="left" data-sort="text" data-column="1">What it is</th>{heads}</tr></thead>'
    )
    # Numbered as the page's data have them, and the most expensive first.
    together = sorted(enumerate(side_by_side(result)), key=lambda each: (-each[1][0].totals.money, each[0]))
    bodies = "".join(
        _body(called(variant), number, together, [headed for _, headed in groups], len(titles) + 2)
        for number, variant in enumerate(result.variants)
    )
    return f'<div class="scroll"><table class="figures members" id="workload-table">{head}{bodies}</table></div>'


def _groups(result: RunResult) -> list[tuple[str, _Headed]]:
    groups: list[tuple[str, _Headed]] = [("CPU, cores", _CPU), ("Memory, GiB", _MEMORY), ("Events", _EVENTS)]
    return [*groups, ("Pods", _PODS)] if scales(result) else groups


def _body(
    name: str, variant: int, together: list[tuple[int, list[WorkloadResult]]], groups: list[_Headed], wide: int
) -> str:
    """The heading is for who sees all variants below each other: without scripts, and where it is read aloud."""
    heading = f'<tr class="heading"><th scope="rowgroup" colspan="{wide}">{escape(name)}</th></tr>'
    rows = "".join(_row(number, same, variant, groups) for number, same in together)
    return f"<tbody>{heading}{rows}</tbody>"


def _row(number: int, same: list[WorkloadResult], variant: int, groups: list[_Headed]) -> str:
    workload, first = same[variant], same[0]
    totals = workload.totals
    what = f"{workload.kind}, {workload.label}" if workload.label else workload.kind
    cells = [number_cell(MONEY.show(totals.money), totals.money, begins=True)]
    if len(same) > 1:
        cells.append(_against(totals.money, first.totals.money) if variant else "<td></td>")
    for headed in groups:
        values = [(measure, measure.read(totals)) for _, measure in headed]
        cells += [number_cell(each.show(value), value, begins=not at) for at, (each, value) in enumerate(values)]
    words = escape(what.lower())
    return (
        f'<tr data-w="{number}" data-words="{words}"><td>{escape(f"{workload.namespace}/{workload.name}")}</td>'
        f'<td class="word">{escape(what)}</td>{"".join(cells)}</tr>'
    )


def _against(money: float, first: float) -> str:
    """By how many per cent the price differs; sorted by the money."""
    told = MONEY.difference(money, first)
    return f'<td data-v="{money - first:.6g}">{difference(told, MONEY.verdict(money, first))}</td>'


def _part(begins: bool) -> str:
    return ' class="part"' if begins else ""
