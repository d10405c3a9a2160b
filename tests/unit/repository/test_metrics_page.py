"""The reference page of metrics names what each component exposes, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitoring.metrics_page import METRICS_BY_COMPONENT, SEVERAL, find_unit, list_process_metrics
from trellis.runtime.manager.metrics import PROCESS_METRICS
from trellis.runtime.telemetry.component_metrics import READINESS_METRICS
from trellis.runtime.telemetry.metrics import Label, Metrics, Spec

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
ROW = re.compile(r"^\| `([a-z0-9_]+)` \|", re.MULTILINE)
EXPOSED = re.compile(r"^# TYPE ([a-z0-9_]+) ", re.MULTILINE)
SPECS = [spec for specs in (*METRICS_BY_COMPONENT.values(), PROCESS_METRICS) for spec in specs]


def sections() -> Iterator[tuple[str, set[str]]]:
    """The titles of the page, with the metrics of each."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        names = ROW.findall(text)
        assert len(names) == len(set(names)), title
        yield title, set(names)


DOCUMENTED = dict(sections())


@pytest.mark.parametrize("component", METRICS_BY_COMPONENT)
def test_what_a_component_exposes_is_documented_and_the_reverse(component: str) -> None:
    served = Metrics((*METRICS_BY_COMPONENT[component], *READINESS_METRICS))
    exposed = set(EXPOSED.findall(served.format_text().decode()))
    documented = DOCUMENTED["Every component"] | DOCUMENTED[component] | DOCUMENTED["Every process"]
    assert exposed == documented


def test_the_page_has_no_other_sections() -> None:
    assert set(DOCUMENTED) == {"Every component", *METRICS_BY_COMPONENT, SEVERAL, "Every process"}
    assert DOCUMENTED[SEVERAL] == {spec.name for spec in PROCESS_METRICS} - DOCUMENTED["Every component"]
    assert {name for name, *_ in list_process_metrics()} == DOCUMENTED["Every process"]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_each_label_has_declared_values(spec: Spec) -> None:
    for label in spec.labels:
        assert isinstance(label, Label), label
        assert bool(label.values) != bool(label.meaning), label


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("trellis_admission_certificate_expiry_timestamp_seconds", "Unix time in seconds"),
        ("trellis_informer_event_age_seconds", "seconds"),
        ("trellis_recommender_model_bytes", "bytes"),
        ("trellis_admission_webhook_registered", "0 or 1"),
        ("trellis_nodes_buffer_chunks", "count"),
    ],
)
def test_the_unit_follows_from_the_name(name: str, unit: str) -> None:
    assert find_unit(name) == unit
