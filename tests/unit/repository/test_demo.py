"""The documentation shows the scenario of `make demo`. `tests/docs/test_demo_in_full.py` plays it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import demo
import demo_shown
from trellis.sim.scenario.files import load_scenario

ROOT = Path(__file__).resolve().parents[3]


def test_the_demo_says_how_large_it_is() -> None:
    fleet = load_scenario(ROOT / demo.SCENARIO).fleet
    assert fleet is not None
    assert (len(fleet.workloads), fleet.clock.steps * fleet.clock.step / 86400) == (60, 14)
    assert demo.BEFORE.startswith("Sixty workloads over two weeks")
    [header] = [line for line in demo_shown.read_shown() if line.split()[:1] == ["fixed"]]
    assert header.split() == [variant.name for variant in fleet.variants]


def test_the_demo_shows_nodes_with_and_without_a_buffer() -> None:
    fleet = load_scenario(ROOT / demo.NODES).fleet
    assert fleet is not None
    [header] = [line for line in demo_shown.read_shown() if line.split()[:1] == ["none"]]
    assert header.split() == [variant.name for variant in fleet.variants]


def test_ctrl_c_prints_only_the_commands_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return subprocess.CompletedProcess(command, 130)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(subprocess, "run", pressed)
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    try:
        with pytest.raises(SystemExit) as ended:
            demo.main()
        assert ended.value.code == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_of_a_table_the_demo_shows_the_section_that_it_is_about() -> None:
    table = [
        "fleet",
        "",
        "   a   b",
        "Nodes",
        "  Node hours 3 4",
        "Cost",
        "  Money 1 2",
        "Percentages compare with a",
        "",
        "more",
    ]
    assert demo.extract_section(table, "Nodes") == [*table[:5], "Percentages compare with a"]
    assert demo.extract_section(table, "Cost") == [*table[:7], "Percentages compare with a"]
    wrapped = [*table[:7], "Percentages compare with a. Prices:", "  example.", "", "more"]
    assert demo.extract_section(wrapped, "Nodes") == [*table[:5], "Percentages compare with a. Prices:", "  example."]


def test_the_demo_shows_every_variant_of_a_table_that_a_terminal_is_too_narrow_for() -> None:
    parts = [
        ["   a   b", "Nodes", "  Node hours 3 4", "Cost", "  Money 1 2"],
        ["   a   c", "Nodes", "  Node hours 3 5"],
    ]
    table = ["fleet", "", *parts[0], "", *parts[1], "Percentages compare with a"]
    assert demo.extract_section(table, "Nodes") == [
        "fleet",
        "",
        *parts[0][:3],
        "",
        *parts[1],
        "Percentages compare with a",
    ]


def test_the_picture_of_the_report_is_small_enough_for_a_page() -> None:
    assert demo_shown.PICTURE.stat().st_size < 300_000
