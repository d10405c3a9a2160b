"""How many nodes were there over time? A drawing that needs no script, with a line for each variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

from trellis.reports.simulation_headline import called
from trellis.sim.results import RunResult

_WIDTH, _HEIGHT = 1140, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 28, 28
_GRID = 'stroke="currentColor" stroke-opacity="0.15"'
_WORDS = 'fill="currentColor" fill-opacity="0.75" font-size="12"'
_TICKS = 6


def node_chart(result: RunResult) -> str:
    """The SVG; nothing where nodes neither come nor go."""
    charts = [(number, each) for number, each in enumerate(result.variants) if each.chart.nodes is not msgspec.UNSET]
    if not charts:
        return ""
    top = _rounded(max((max(each.chart.nodes or [0.0], default=0.0) for _, each in charts), default=0.0))
    body = [*_axes(result, top)]
    body += [_line(result, each.chart.times, each.chart.nodes or [], top, number) for number, each in charts]
    names = ", ".join(called(each) for _, each in charts)
    style = "width:100%;height:auto;display:block;margin-top:1rem"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" style="{style}" '
        f'aria-label="Nodes over time: {escape(names)}">{"".join(body)}</svg>'
    )


def _line(result: RunResult, times: Sequence[float], nodes: Sequence[float], top: int, number: int) -> str:
    """Steps: so many nodes from one point to the next."""
    path = ""
    for at, (time, count) in enumerate(zip(times, nodes, strict=True)):
        across, up = _across(result, time), _up(count, top)
        path += f"H{across:.1f}V{up:.1f}" if at else f"M{across:.1f} {up:.1f}"
    path += f"H{_across(result, times[-1] + _span(times)):.1f}" if times else ""
    return f'<path d="{path}" fill="none" stroke="var(--v{number % 8})" stroke-width="1.6"/>'


def _span(times: Sequence[float]) -> float:
    """How long a point lasts: a run that was stopped ends before the others."""
    return times[1] - times[0] if len(times) > 1 else 0.0


def _axes(result: RunResult, top: int) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="14" {_WORDS}>Nodes</text>'
    for count in range(0, top + 1, max(top // 4, 1)):
        up = _up(count, top)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up:.1f}" y2="{up:.1f}" {_GRID}/>'
        yield f'<text x="{_LEFT - 8}" y="{up + 4:.1f}" text-anchor="end" {_WORDS}>{count}</text>'
    for tick in range(_TICKS + 1):
        time = result.begin + (result.end - result.begin) * tick / _TICKS
        moment = datetime.fromtimestamp(time, UTC)
        anchor = "start" if not tick else "end" if tick == _TICKS else "middle"
        where = f'x="{_across(result, time):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}"'
        yield f"<text {where} {_WORDS}>{moment.day} {moment:%b %H:%M}</text>"


def _across(result: RunResult, time: float) -> float:
    share = (time - result.begin) / max(result.end - result.begin, 1.0)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _up(count: float, top: int) -> float:
    return _HEIGHT - _BOTTOM - count / top * (_HEIGHT - _TOP - _BOTTOM)


def _rounded(most: float) -> int:
    """A whole number of four equal steps, with room above the highest line."""
    return 4 * max(int(-(-most // 4)), 1)
