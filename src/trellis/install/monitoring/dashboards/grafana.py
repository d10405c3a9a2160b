"""Dashboards as JSON for Grafana.

A dashboard has no identifiers of one Grafana: its data source is a variable, and its `uid` is its name. Panels are laid
out from left to right in rows of 24 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trellis.install.monitoring.dashboards.admission import ADMISSION_DASHBOARD
from trellis.install.monitoring.dashboards.buffers import BUFFERS_DASHBOARD
from trellis.install.monitoring.dashboards.fleet import FLEET_DASHBOARD
from trellis.install.monitoring.dashboards.hvpa import HVPA_DASHBOARD
from trellis.install.monitoring.dashboards.nodes import NODES_DASHBOARD
from trellis.install.monitoring.dashboards.panel import VARIABLES, Dashboard, Panel, PanelKind, Row
from trellis.install.monitoring.dashboards.recommender import RECOMMENDER_DASHBOARD
from trellis.install.monitoring.dashboards.updater import UPDATER_DASHBOARD

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    FLEET_DASHBOARD,
    RECOMMENDER_DASHBOARD,
    ADMISSION_DASHBOARD,
    UPDATER_DASHBOARD,
    HVPA_DASHBOARD,
    BUFFERS_DASHBOARD,
    NODES_DASHBOARD,
)

# Of Grafana 12; later versions migrate it when they load the dashboard.
_SCHEMA_VERSION: Final = 41
_COLUMNS: Final = 24
_ROW_HEIGHT: Final = 1
_HEIGHTS: Final = {PanelKind.STAT: 4, PanelKind.GRAPH: 8, PanelKind.TABLE: 8}
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
# What tells the dashboards of Trellis from others, and links them with one another.
_TAG: Final = "trellis"


def dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards by name, as documents that Grafana imports."""
    return {dashboard.name: _build_dashboard(dashboard) for dashboard in DASHBOARDS}


def _build_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [_TAG],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Trellis",
                "tags": [_TAG],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
            }
        ],
        "templating": {"list": [_build_source_variable(), *map(_build_variable, VARIABLES)]},
        "panels": list(_lay_out(dashboard.rows)),
    }


def _build_source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
    }


def _build_variable(label: str) -> dict[str, Any]:
    query = f"label_values(trellis_build_info, {label})"
    return {
        "name": label,
        "type": "query",
        "label": label.capitalize(),
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "Variable"},
        # Targets without the label are shown too.
        "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
        "hide": 0,
        "includeAll": True,
        "multi": True,
        "options": [],
        "refresh": 2,
        "regex": "",
        "sort": 1,
    }


def _lay_out(rows: tuple[Row, ...]) -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for row in rows:
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": _ROW_HEIGHT}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, top, left, height = number + 1, top + _ROW_HEIGHT, 0, 0
        for panel in row.panels:
            # Panels of one height stand side by side, so that no gaps are left.
            if left + panel.width > _COLUMNS or (left and height != _HEIGHTS[panel.kind]):
                left, top = 0, top + height
            place = {"x": left, "y": top, "w": panel.width, "h": _HEIGHTS[panel.kind]}
            yield {"id": number, "gridPos": place, **_build_panel(panel)}
            number, left, height = number + 1, left + panel.width, _HEIGHTS[panel.kind]
        top += height


def _build_panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": str(panel.kind),
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "targets": list(_build_targets(panel)),
        "fieldConfig": {"defaults": _build_defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind] | ({"textMode": "name"} if panel.shows_name else {}),
        **({"transformations": _TABLE_COLUMNS} if panel.kind is PanelKind.TABLE else {}),
    }


def _build_targets(panel: Panel) -> Iterator[dict[str, Any]]:
    is_graph = panel.kind is PanelKind.GRAPH
    for number, query in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query.filtered,
            "legendFormat": query.legend or "__auto",
            "editorMode": "code",
            "format": "table" if panel.kind is PanelKind.TABLE else "time_series",
            "instant": not is_graph,
            "range": is_graph,
        }


def _build_defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    steps += [{"color": threshold.color, "value": threshold.value} for threshold in panel.thresholds]
    defaults: dict[str, Any] = {
        "unit": str(panel.unit),
        "color": {"mode": "palette-classic" if panel.kind is PanelKind.GRAPH else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind is PanelKind.GRAPH:
        defaults["min"] = 0
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 0,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return defaults


_OPTIONS: Final[dict[PanelKind, dict[str, Any]]] = {
    PanelKind.GRAPH: {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    PanelKind.STAT: {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    PanelKind.TABLE: {"cellHeight": "sm", "footer": {"show": False}, "showHeader": True},
}
# The time of a value of now says nothing.
_TABLE_COLUMNS: Final = [{"id": "organize", "options": {"excludeByName": {"Time": True}}}]
