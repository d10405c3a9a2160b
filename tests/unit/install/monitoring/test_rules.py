"""Alert rules: each says what is wrong, how urgent that is, and where its page is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trellis.install.monitoring import alert_rules
from trellis.install.monitoring.alerts.alert import Alert, AlertSeverity
from trellis.install.monitoring.rules import ALERTS

ROOT = Path(__file__).resolve().parents[4]
RUNBOOKS = ROOT / "docs" / "runbooks"
HEADINGS = ["What it means", "What it affects", "How to see it", "What to do"]
EACH = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


def test_names_are_unique_and_say_whose_alerts_they_are() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"Trellis[A-Z]\w+", name) for name in names)


@EACH
def test_an_alert_has_a_severity_a_time_and_sentences(alert: Alert) -> None:
    assert alert.severity in AlertSeverity
    assert re.fullmatch(r"\d+[mhd]", alert.lasting)
    assert not alert.summary.endswith(".")
    assert alert.description.endswith(".")


@EACH
def test_an_alert_has_a_runbook_with_the_four_parts(alert: Alert) -> None:
    text = (RUNBOOKS / f"{alert.name}.md").read_text()
    assert text.splitlines()[0] == f"# {alert.name}"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


def test_every_runbook_has_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {"README", *(alert.name for alert in ALERTS)}


def test_an_installation_chooses_the_address_of_runbooks_and_labels() -> None:
    groups = alert_rules(runbooks="https://wiki.example/trellis", labels={"team": "platform"})
    rules = {rule["alert"]: rule for group in groups.values() for rule in group["rules"]}
    frozen = rules["TrellisFrozen"]
    assert frozen["annotations"]["runbook_url"] == "https://wiki.example/trellis/TrellisFrozen.md"
    assert frozen["labels"] == {"severity": "warning", "team": "platform"}
    assert list(rules) == [alert.name for alert in ALERTS]
