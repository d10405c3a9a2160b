"""A backtest for people and for programs: `as_text`, `as_html`, `as_json` and `as_csv`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.reports.backtest_html import as_html
from trellis.reports.backtest_text import as_text
from trellis.reports.result_files import Cell, csv_document, json_document
from trellis.sim.backtest.results import BacktestResult, Figures

__all__ = ["as_csv", "as_html", "as_json", "as_text"]

_FIGURES = tuple(Figures.__struct_fields__)
_NOTHING = Figures()


def as_json(result: BacktestResult) -> bytes:
    """Everything, charts included."""
    return json_document("BacktestResult", result)


def as_csv(result: BacktestResult) -> str:
    """A row for each series under each variant."""
    columns = [f"{resource}_{name}" for resource in ("cpu", "memory") for name in _FIGURES]
    return csv_document(["series", "variant", *columns], _rows(result))


def _rows(result: BacktestResult) -> Iterator[list[Cell]]:
    for score in result.series:
        both = [msgspec.structs.astuple(figures or _NOTHING) for figures in (score.cpu, score.memory)]
        yield [score.series, score.variant, *both[0], *both[1]]
