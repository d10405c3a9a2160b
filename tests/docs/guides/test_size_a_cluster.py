"""The guide to sizes: its table and patch are what would be printed and written, and its role has the rights needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from support.builders.dumps import shop as served_shop
from support.builders.surveys import MIB, NOW, shop
from support.docs.transcripts import BLOCK
from support.prometheus.service import add_prometheus
from trellis.base.prices import EXAMPLE_PRICES
from trellis.cli import survey
from trellis.cli.main import trellis
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy, LimitRule
from trellis.core.recommend.settings import DefaultSettings
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.reports.advice.report import ManifestForm, build_manifest_files, render_advice

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "size-a-cluster.md").read_text()
SHOP = advise(shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW)
MANIFESTS = {
    document["kind"]: (document, match[2])
    for match in BLOCK.finditer(GUIDE)
    if match[1] == "yaml"
    for document in [yaml.safe_load(match[2])]
}


def test_the_table_is_what_is_printed() -> None:
    assert f"```text\n{render_advice(SHOP, 'table')}```\n" in GUIDE


def test_the_sample_advises_nothing_below_the_minimums_of_the_recommender() -> None:
    minimums = DefaultSettings()
    for workload in SHOP.workloads:
        for container in workload.containers:
            target, containers = container.surveyed.estimate.target, len(workload.containers)
            if container.surveyed.samples:
                assert target.cpu >= minimums.pod_min_cpu_millicores // containers
                assert target.memory >= minimums.pod_min_memory_mebibytes * MIB / containers


def test_the_patch_is_one_that_is_written_of_a_workload_without_an_hpa() -> None:
    document, text = MANIFESTS["Deployment"]
    name = document["metadata"]["name"]
    assert build_manifest_files(SHOP, ManifestForm.PATCHES).texts[f"shop/deployment-{name}.yaml"] == f"---\n{text}"
    [workload] = [workload.surveyed for workload in SHOP.workloads if workload.surveyed.name == name]
    assert not workload.hpas


def test_every_rule_for_limits_is_explained() -> None:
    for rule in LimitRule:
        assert f"| `{rule}` |" in GUIDE


def test_the_role_has_the_rights_that_the_command_uses_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server = add_prometheus(served_shop())

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield server.client, "shop"

    monkeypatch.setattr(survey, "open_chosen_client", connected)
    for arguments in ([], ["-n", "shop"], ["--suggest-buckets"], ["--vpas"]):
        result = CliRunner().invoke(trellis, ["recommend", "--quiet", *arguments])
        assert result.exit_code == 0, result.output
    granted = {right for rule in MANIFESTS["ClusterRole"][0]["rules"] for right in _expand(rule)}
    assert granted == {_read_right(request) for request in server.requests}


def _expand(rule: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield group, resource, verb


def _read_right(request: Request) -> tuple[str, str, str]:
    """The API group, the resource and the verb that RBAC compares with roles."""
    assert request.method == "GET"
    _, root, *parts = request.path.split("/")
    group, parts = ("", parts[1:]) if root == "api" else (parts[0], parts[2:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    subresource = f"/{parts[2]}" if len(parts) > 2 else ""
    return group, f"{parts[0]}{subresource}", "get" if len(parts) > 1 else "list"
