"""Runbooks name what exists: metrics, flags, lines of logs, objects of an installation, and commands."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.metrics_page import METRICS_BY_COMPONENT
from trellis.cli.main import trellis
from trellis.cli.process.catalog import import_all_settings
from trellis.install.installation import build_manifests
from trellis.install.monitoring.rules import ALERTS
from trellis.install.tree.evaluation import Context
from trellis.install.values.loading import load_values
from trellis.runtime.manager.metrics import PROCESS_METRICS
from trellis.runtime.settings.declarations import declared_settings

ROOT = Path(__file__).resolve().parents[4]
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGES = {**{alert.name: RUNBOOKS / f"{alert.name}.md" for alert in ALERTS}, "operate": ROOT / "docs/guides/operate.md"}
EACH = pytest.mark.parametrize("name", PAGES)

METRIC = re.compile(r"\b((?:trellis|vpa)_[a-z0-9_]*[a-z0-9])\b")
FLAG = re.compile(r"`--([a-z][a-z0-9.-]+)")
COMMAND = re.compile(r"^(?:kubectl|trellis|curl|promtool)\b.*(?:\n  .*)*", re.MULTILINE)
PHRASE = re.compile(r"grep (?:-\S+ )*'([^']+)'|grep (?:-i )?(\w+)$")
LOG_LINE = re.compile(r"^\| `([^`]+)` \| \[Trellis", re.MULTILINE)
SELECTOR = re.compile(r"-l (\S+?)=(\S+)")
OF_KUBECTL = {"previous", "tail", "as"}


@cache
def list_metrics() -> frozenset[str]:
    specs = [spec for specs in (*METRICS_BY_COMPONENT.values(), PROCESS_METRICS) for spec in specs]
    suffixes = ("", "_sum", "_count", "_bucket")
    return frozenset(f"{spec.name}{suffix}" for spec in specs for suffix in suffixes)


@cache
def list_flags() -> frozenset[str]:
    return frozenset(
        declaration.name for settings in import_all_settings().values() for declaration in declared_settings(settings)
    )


@cache
def read_sources() -> str:
    """What components may log. Strings that are split over lines are joined."""
    text = "\n".join(path.read_text() for path in (ROOT / "src" / "trellis").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", text)


@cache
def list_objects() -> list[dict[str, Any]]:
    """The objects of the default installation."""
    return build_manifests(Context(load_values([]), name="trellis", namespace="trellis-system", service="trellis"))


def code_of(name: str) -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", PAGES[name].read_text(), re.DOTALL))


@EACH
def test_metrics_exist(name: str) -> None:
    named = {metric for metric in METRIC.findall(PAGES[name].read_text()) if not metric.endswith(("_ms", "_py"))}
    assert named - list_metrics() == set()


@EACH
def test_flags_exist(name: str) -> None:
    named = {flag.partition(".")[2] or flag for flag in FLAG.findall(PAGES[name].read_text())}
    assert named - list_flags() - OF_KUBECTL == set()


@EACH
def test_lines_of_logs_exist(name: str) -> None:
    text = PAGES[name].read_text()
    phrases = {first or second for line in code_of(name).splitlines() for first, second in PHRASE.findall(line)}
    phrases |= set(LOG_LINE.findall(text)) if name == "operate" else set()
    for phrase in phrases - {"^#", "Traceback"}:
        assert re.search(phrase, read_sources(), re.IGNORECASE), phrase


@EACH
def test_commands_are_of_the_default_installation(name: str) -> None:
    code = code_of(name)
    assert "kube-system" not in code
    pods = [item["spec"]["template"]["metadata"]["labels"] for item in list_objects() if item["kind"] == "Deployment"]
    names = {item["metadata"]["name"] for item in list_objects()}
    for key, value in SELECTOR.findall(code):
        if key == "kubernetes.io/service-name":
            assert value in names
        else:
            assert any(labels.get(key) == value for labels in pods), f"no pod has {key}={value}"
    for deployment in re.findall(r"deployment/([\w-]+)", code):
        assert deployment in names


@EACH
def test_commands_of_trellis_exist(name: str) -> None:
    used = {words.split()[1] for words in COMMAND.findall(code_of(name)) if words.startswith("trellis ")}
    used |= set(re.findall(r"`trellis ([a-z]+)", PAGES[name].read_text()))
    context = trellis.make_context("trellis", [], resilient_parsing=True)
    assert used <= set(trellis.list_commands(context))


def test_the_values_that_turn_monitoring_on_are_values_of_the_chart() -> None:
    values = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGES["operate"].read_text(), re.DOTALL)[0])
    context = Context(load_values([values]), name="trellis", namespace="x", service="trellis")
    kinds = {item["kind"] for item in build_manifests(context)}
    assert {"PodMonitor", "PrometheusRule", "ConfigMap"} <= kinds
