"""The pictures of the guide to startup boost show what the proposal says of probes and durations."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pictures.boost_timeline import simulate_boost
from pictures.boosts import KINDS, PROBES, Panel, draw_boosts

NAMESPACE = "{http://www.w3.org/2000/svg}"


def changes(panel: Panel) -> list[tuple[float, int, int | None]]:
    return [(moment.at, moment.request, moment.limit) for moment in simulate_boost(panel.story)]


@pytest.mark.req("SB-29")
def test_a_boost_ends_at_once_after_a_minute_when_ready_or_a_minute_after_ready() -> None:
    assert [[moment.at for moment in simulate_boost(panel.story)] for panel in PROBES] == [
        [0, 1],
        [0, 61],
        [0, 40],
        [0, 100],
    ]
    assert changes(PROBES[0]) == [(0.0, 1000, 2000), (1.0, 500, 1000)]


@pytest.mark.req("SB-20", "SB-21", "SB-31")
def test_the_kinds_of_boost_have_the_amounts_of_the_guide() -> None:
    assert [changes(panel) for panel in KINDS] == [
        [(0.0, 1000, 2000), (70.0, 500, 1000)],
        [(0.0, 1000, 1500), (70.0, 500, 1000)],
        [(0.0, 999, 1000), (70.0, 500, 1000)],
        [(0.0, 800, 1600), (70.0, 600, 1200)],
    ]


@pytest.mark.parametrize("panels", [PROBES, KINDS], ids=["probes", "kinds"])
def test_a_picture_names_every_panel_and_every_amount_and_has_both_colour_schemes(panels: tuple[Panel, ...]) -> None:
    text = draw_boosts(panels, "CPU over time")
    result = {element.text for element in ElementTree.fromstring(text).iter(f"{NAMESPACE}text")}  # noqa: S314 - our own text
    assert result >= {panel.title for panel in panels}
    assert result >= {f"{moment.request}m" for panel in panels[1:] for moment in simulate_boost(panel.story)}
    assert "prefers-color-scheme: dark" in text
