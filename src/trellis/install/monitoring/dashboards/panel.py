"""What a dashboard consists of, without Grafana's form: rows of panels, each with its queries.

In an expression `{*}` stands for the filter by the variables of the dashboard, and `{*,reason="x"}` for that and more.
`or 0` at its end shows 0 where there is no series yet.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

# The variables of every dashboard but that of the data source, by the label that each filters.
VARIABLES: Final = ("namespace", "job")
_ZERO: Final = " or 0"
_FILTER: Final = ",".join(f'{name}=~"${name}"' for name in VARIABLES)


class PanelKind(StrEnum):
    """How values are shown, in Grafana's words."""

    GRAPH = "timeseries"
    STAT = "stat"
    TABLE = "table"


class Unit(StrEnum):
    """Units, in Grafana's words."""

    COUNT = "short"
    SECONDS = "s"
    BYTES = "bytes"
    CORES = "cores"
    PER_SECOND = "ops"
    RATIO = "percentunit"
    YES_NO = "bool_yes_no"


class Query(msgspec.Struct, frozen=True):
    """A query and the legend of its series, such as `{{reason}}`."""

    expression: str
    legend: str = ""

    @property
    def filtered(self) -> str:
        """The expression as Prometheus gets it."""
        expression = self.expression.replace("{*", f"{{{_FILTER}")
        if expression.endswith(_ZERO):
            return f"{expression.removesuffix(_ZERO)} or on () vector(0)"
        return expression


class Threshold(msgspec.Struct, frozen=True):
    """A value from which on a panel has a colour."""

    value: float
    color: str


# Of a number of things that should be none.
NONE_WANTED: Final = (Threshold(1, "red"),)
# Of a state that should be 1.
ONE_WANTED: Final = (Threshold(0, "red"), Threshold(1, "green"))


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel. `width` is in 24ths of the page; `stacked` adds the series up.

    `shows_name` shows the legend in place of the value, which says nothing.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    kind: PanelKind = PanelKind.GRAPH
    unit: Unit = Unit.COUNT
    width: int = 8
    stacked: bool = False
    shows_name: bool = False
    thresholds: tuple[Threshold, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard. `name` is that of its file, and of its address in Grafana."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]


def graph(
    title: str,
    description: str,
    *queries: tuple[str, str],
    unit: Unit = Unit.COUNT,
    width: int = 8,
    stack: bool = False,
) -> Panel:
    """A graph over time; a query is an expression and a legend."""
    return Panel(
        title=title,
        description=description,
        queries=tuple(Query(*query) for query in queries),
        unit=unit,
        width=width,
        stacked=stack,
    )


def stat(
    title: str,
    description: str,
    *queries: tuple[str, str],
    unit: Unit = Unit.COUNT,
    width: int = 4,
    thresholds: tuple[Threshold, ...] = (),
    shows_name: bool = False,
) -> Panel:
    """Values of now in large letters."""
    return Panel(
        title=title,
        description=description,
        queries=tuple(Query(*query) for query in queries),
        kind=PanelKind.STAT,
        unit=unit,
        width=width,
        shows_name=shows_name,
        thresholds=thresholds,
    )


def quantiles(histogram: str, labels: str = "", by: str = "") -> tuple[tuple[str, str], ...]:
    """Queries for the median and the 99th percentile of a histogram; `by` is a label that is kept."""
    kept, legend = (f"le, {by}", f"{{{{{by}}}}} ") if by else ("le", "")
    more = f",{labels}" if labels else ""
    return tuple(
        (
            f"histogram_quantile({share}, sum by ({kept}) (rate({histogram}_bucket{{*{more}}}[$__rate_interval])))",
            f"{legend}{name}",
        )
        for share, name in ((0.5, "median"), (0.99, "99th percentile"))
    )


def table(title: str, description: str, query: str, *, unit: Unit = Unit.COUNT, width: int = 12) -> Panel:
    """Values of now with their labels as columns."""
    return Panel(
        title=title,
        description=description,
        queries=(Query(query),),
        kind=PanelKind.TABLE,
        unit=unit,
        width=width,
    )
