"""`trellis explain` on a real API server: it says what the components that run there say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cluster.updaters import Start, create_vpa_with_advice, events, running_pods, updaters, wait_for_two_passes
from support.cluster.vpas import (
    ADVICE,
    EVERY_SECOND,
    USAGE,
    USAGE_SECONDS,
    amounts,
    count_samples,
    get_target,
    series,
    vpa,
)
from testbed import workloads
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.cli.main import trellis


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def asked(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["explain", *arguments, "--kubeconfig", str(kubeconfig)])


def explained(cluster: Cluster, *arguments: str) -> Any:
    result = asked(cluster.kubeconfig, *arguments, "--json")
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return json.loads(result.stdout)


def test_a_recommendation_is_explained_as_the_recommender_made_it(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    policy = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"cpu": "30m"}}]}
    capped = (30, ADVICE[1])
    cluster.api.create(workloads.deployment("web", annotations=USAGE), namespace)
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Off"}, resourcePolicy=policy), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    recommender(namespace, EVERY_SECOND)
    until("a checkpoint", lambda: count_samples(cluster, namespace, "web-app"), USAGE_SECONDS)

    def is_what_is_stored() -> Any:
        """One of the two may have been read before the last sample; the first one may be too low to be capped."""
        [app] = explained(cluster, "recommendation", "web", "-n", namespace)["containers"]
        target = (app.get("decided") or {}).get("recommended", {}).get("target")
        is_stored = target and amounts(target) == get_target(cluster, namespace, "web") == capped
        return app if is_stored and app["history"] == "checkpoint" else None

    app = until("a recommendation by the checkpoint", is_what_is_stored)
    recommended = app["decided"]["recommended"]["target"]
    assert app["decided"]["published"]["target"] == recommended
    [step] = app["steps"]
    assert (step["resource"], step["reason"]["code"], step["after"]) == ("cpu", "CappedToMaxAllowed", "30m")


def test_a_verdict_is_explained_as_the_updater_gave_it(cluster: Cluster, namespace: str, updater: Start) -> None:
    running_pods(cluster, namespace, "web")
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate", updatePolicy={"minReplicas": 5})
    controller = updater(namespace)
    until("the verdict", lambda: events(cluster, namespace, "TooFewReplicas"))
    wait_for_two_passes(controller)
    explanation = explained(cluster, "vpa", "web", "-n", namespace)
    assert [pod["reason"]["code"] for pod in explanation["pods"]] == ["TooFewReplicas"] * 2
    counts = {labels["reason"]: count for labels, count in series(controller, "trellis_updater_pods") if count}
    assert set(counts) == {pod["reason"]["code"] for pod in explanation["pods"]}
    assert explanation["pods"][0]["counterfactuals"] == [
        {"code": "ReplicasAdded", "values": {"living": 2.0, "minimum": 5.0}},
        {"code": "BudgetSkipped", "values": {"flag": "--in-place-skip-disruption-budget"}},
    ]
    assert any(event["reason"] == "TooFewReplicas" for event in explanation["events"])


def test_a_pod_is_explained_and_an_unknown_one_answered_with_the_nearest(cluster: Cluster, namespace: str) -> None:
    running_pods(cluster, namespace, "web", 1)
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    [pod] = cluster.list_pods(namespace, "web")
    name = pod["metadata"]["name"]
    result = explained(cluster, "pod", f"{namespace}/{name}")
    assert (result["pods"][0]["name"], result["vpa"]["name"]) == (name, "web")
    refused = asked(cluster.kubeconfig, "vpa", "wbe", "-n", namespace)
    assert 'did you mean "web"' in str(refused.exception)


def test_a_user_with_few_rights_gets_a_partial_answer_or_the_reason_for_none(cluster: Cluster, namespace: str) -> None:
    running_pods(cluster, namespace, "web", 1)
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    kubeconfig = _reader(cluster, namespace, "pods", "deployments", "replicasets", "verticalpodautoscalers")

    def partial_answer() -> Result | None:
        result = asked(kubeconfig, "vpa", "web", "-n", namespace)
        return result if "This answer is partial" in result.output else None

    result = until("the rights of the account", partial_answer)
    assert result.exit_code == 1
    assert "PodDisruptionBudget" in result.output
    hidden = asked(_reader(cluster, namespace, "pods", name="blind"), "vpa", "web", "-n", namespace)
    assert "may not be read" in str(hidden.exception)


def _reader(cluster: Cluster, namespace: str, *resources: str, name: str = "reader") -> Path:
    """An account that may read these in one namespace."""
    group = "rbac.authorization.k8s.io"
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, namespace)
    rules = [{"apiGroups": ["*"], "resources": list(resources), "verbs": ["get", "list"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    cluster.api.create(role, namespace)
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": name}}
    cluster.api.create({**binding, "roleRef": reference, "subjects": subjects}, namespace)
    return cluster.kubeconfig_for(name, namespace)
