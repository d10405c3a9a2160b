"""`trellis explain hvpa` on a real API server: it says what the Hvpa controller does there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cluster.hvpas import (
    Start,
    advise,
    get_hvpa_conditions,
    get_published_size,
    get_replicas,
    hvpa,
    hvpa_controllers,
    workload,
    workload_path,
)
from support.cluster.vpas import vpa
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.base.quantities import Quantity
from trellis.cli.main import trellis


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


def explained(cluster: Cluster, *arguments: str) -> Any:
    asked = ["explain", *arguments, "--kubeconfig", str(cluster.kubeconfig), "--json"]
    result = CliRunner().invoke(trellis, asked)
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return json.loads(result.stdout)


def test_what_is_explained_before_the_controller_starts_is_what_it_then_does(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    cluster.api.create(workload("StatefulSet", "6", "2G", 2), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    until_counted(cluster, namespace, 2)
    theirs = vpa("web", updatePolicy={"updateMode": "Off"})
    theirs["spec"]["targetRef"]["kind"] = "StatefulSet"
    cluster.api.create(theirs, namespace)
    cluster.api.create(hvpa("web", kind="StatefulSet", vpa={"deploy": False}), namespace)
    advise(cluster, namespace, 12_000, 24_000, memory="2G")

    before = explained(cluster, "hvpa", "web", "-n", namespace)["hvpa"]
    assert (before["replicas"], before["count"], before["verdict"]["code"]) == (2, 3, "ScalesUp")
    assert (before["vpa"]["name"], before["vpa"]["owned"]) == ("web", False)
    assert [(demand["resource"], demand["count"]) for demand in before["demands"]] == [("cpu", 3), ("memory", 2)]

    controller(namespace)
    until("three replicas", lambda: get_replicas(cluster, namespace, "web", "statefulsets") == before["count"])
    cluster.wait_for_ready_pods(namespace, "web", 3)
    until_counted(cluster, namespace, 3)
    wanted = Quantity.parse(before["size"]["cpu"]).milli, Quantity.parse(before["size"]["memory"]).units
    until("its size", lambda: get_published_size(cluster, namespace, "web") == wanted)

    [pod, *_] = cluster.list_pods(namespace, "web")
    for kind, name in (("hvpa", "web"), ("pod", pod["metadata"]["name"])):
        after = explained(cluster, kind, name, "-n", namespace)["hvpa"]
        assert (after["replicas"], after["count"], after["size"]) == (3, 3, before["size"])

    def is_what_is_stored() -> bool:
        conditions = explained(cluster, "hvpa", "web", "-n", namespace)["hvpa"]["conditions"]
        reasons = {condition["type"]: (condition["status"], condition["reason"]) for condition in conditions}
        return reasons.get("Active") == get_hvpa_conditions(cluster, namespace, "web").get("Active", ())

    until("its condition to be told as it is stored", is_what_is_stored)


def until_counted(cluster: Cluster, namespace: str, replicas: int) -> None:
    """Return when the StatefulSet says how many it has, which is a moment after they are there."""
    path = workload_path(namespace, "web", "statefulsets")
    until("all to be counted", lambda: cluster.api.get(path)["status"].get("replicas") == replicas)
