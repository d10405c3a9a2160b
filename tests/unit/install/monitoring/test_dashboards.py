"""Dashboards in Grafana's form: complete, laid out without overlaps, and tied to no one Grafana."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from trellis.install.monitoring import dashboards
from trellis.install.monitoring.dashboards.panel import Unit
from trellis.runtime.manager.settings import COMPONENTS

DASHBOARDS = dashboards()
EACH = pytest.mark.parametrize("name", DASHBOARDS)


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARDS[name]["panels"] if panel["type"] != "row"]


def test_there_is_an_overview_and_one_dashboard_for_each_component() -> None:
    assert set(DASHBOARDS) == {"trellis-fleet", *(f"trellis-{component}" for component in COMPONENTS)}
    assert [dashboard["uid"] for dashboard in DASHBOARDS.values()] == list(DASHBOARDS)
    assert len({dashboard["title"] for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)


@EACH
def test_every_panel_has_a_title_a_sentence_a_unit_and_queries(name: str) -> None:
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in list(Unit)
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


@EACH
def test_panels_do_not_overlap_and_fit_on_the_page(name: str) -> None:
    places = [panel["gridPos"] for panel in DASHBOARDS[name]["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)
    numbers = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(set(numbers)) == len(numbers)


@EACH
def test_panels_side_by_side_have_one_height(name: str) -> None:
    heights: dict[int, set[int]] = {}
    for panel in DASHBOARDS[name]["panels"]:
        heights.setdefault(panel["gridPos"]["y"], set()).add(panel["gridPos"]["h"])
    assert all(len(found) == 1 for found in heights.values())


@EACH
def test_the_data_source_and_the_installation_are_variables(name: str) -> None:
    dashboard = DASHBOARDS[name]
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "namespace", "job"]
    assert "id" not in dashboard
    for panel in panels(name):
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert "{*" not in target["expr"]
            is_of_others = "apiserver_" in target["expr"] or "ALERTS{" in target["expr"]
            assert ('namespace=~"$namespace",job=~"$job"' in target["expr"]) is not is_of_others, target["expr"]


@EACH
def test_a_dashboard_is_small_enough_for_a_config_map(name: str) -> None:
    assert len(json.dumps(DASHBOARDS[name], indent=2)) < 200_000
