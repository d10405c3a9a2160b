"""The guide to simulations has the limits of risk by which a variant is recommended."""

from __future__ import annotations

import re
from pathlib import Path

from trellis.sim.scores.risk import SIMULATION_RISKS

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "simulate.md").read_text()
SECTION = GUIDE.split("### Which variant is recommended")[1].split("\n## ")[0]
ROWS = {
    "time_above_cpu": ("time above CPU request", "percentage points", 100.0),
    "time_above_memory": ("time above memory request", "percentage points", 100.0),
    "throttled": ("time throttled", "percentage points", 100.0),
    "oom_kills": ("OOM kills", "per container and week", 1.0),
    "overload": ("overload", "% of the CPU that is used", 100.0),
    "wait": ("wait of pods for a node, p95", "s", 1.0),
}


def test_every_limit_of_risk_is_documented_with_its_figures() -> None:
    rows = re.findall(r"^\| ([^|]+?) \| ([\d.]+) ([^|]+?) \|$", SECTION, re.MULTILINE)
    assert {name: (float(amount), unit) for name, amount, unit in rows} == {
        ROWS[risk.key][0]: (risk.limit.amount * ROWS[risk.key][2], ROWS[risk.key][1]) for risk in SIMULATION_RISKS
    }
    assert {risk.limit.factor for risk in SIMULATION_RISKS} == {1.5}
    assert "more than 1.5 times" in SECTION
