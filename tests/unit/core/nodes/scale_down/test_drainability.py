"""What keeps a pod where it is: its own word, its controller, its files, and disruption budgets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.nodes import START, a_group, a_pod
from support.worlds.scale_down import DOWN, ShrinkingCluster, a_budget, a_web_pod
from trellis.api.kube.pods import Pod
from trellis.core.nodes.scale_down.drainability import DisruptionBudgets, find_drain_problem, find_pods_to_drain
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.devices import DeviceClaims
from trellis.core.nodes.state.pods import PlacedPod
from trellis.core.nodes.state.snapshot import ClusterSnapshot

WEB = {"app": "web"}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def placed(pod: Pod, *, ready: bool = True) -> PlacedPod:
    """A pod as the snapshot knows it where it runs."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = msgspec.convert({"phase": "Running", "conditions": conditions}, type(pod.status))
    spec = msgspec.structs.replace(pod.spec, node_name="n1")
    snapshot = ClusterSnapshot()
    key = (pod.metadata.namespace, pod.metadata.name)
    snapshot.put_pod(key, msgspec.structs.replace(pod, spec=spec, status=status))
    return snapshot.placed[key]


def stays(pod: Pod, settings: ScaleDownSettings = DOWN, *budgets: Any) -> str | None:
    reason = find_drain_problem(placed(pod), DisruptionBudgets(budgets), settings)
    return reason.reason.code if reason is not None else None


def with_annotation(key: str, value: str, **fields: Any) -> Pod:
    return a_web_pod("web", annotations={key: value}, **fields)


def test_a_pod_of_a_replica_set_may_be_evicted() -> None:
    assert stays(a_web_pod("web")) is None


@pytest.mark.parametrize(("key", "value"), [(SAFE, "false"), ("karpenter.sh/do-not-disrupt", "true")])
def test_a_pod_annotated_as_unsafe_to_evict_is_not_evicted(key: str, value: str) -> None:
    assert stays(with_annotation(key, value)) == "PodNotSafeToEvict"


def test_a_pod_without_a_controller_is_not_evicted() -> None:
    assert stays(a_pod("bare")) == "PodNotReplicated"


@pytest.mark.parametrize(
    ("toleration", "code"),
    [
        ({"operator": "Exists"}, "PodToleratesRemovalTaint"),
        ({"operator": "Exists", "effect": "NoSchedule"}, "PodToleratesRemovalTaint"),
        ({"key": "trellis.x-k8s.io/leaving", "operator": "Exists"}, "PodToleratesRemovalTaint"),
        ({"operator": "Exists", "effect": "NoExecute"}, None),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, None),
    ],
    ids=str,
)
def test_a_pod_that_tolerates_the_leaving_taint_is_not_evicted(toleration: dict[str, str], code: str | None) -> None:
    assert stays(a_web_pod("web", tolerations=[toleration])) == code
    assert stays(with_annotation(SAFE, "true", tolerations=[toleration])) is None


def test_no_pod_is_evicted_repeatedly_from_a_node_it_would_return_to() -> None:
    cluster = ShrinkingCluster(a_group("small")).add_group_nodes("small", 2)
    cluster.run("small-1", a_web_pod("everywhere", "500m", tolerations=[{"operator": "Exists"}]))
    cluster.run("small-2", a_web_pod("large", "2500m"))
    cluster.run_passes(3000, every=30)
    assert cluster.evicted == []
    assert cluster.reason_code("small-1") == "PodToleratesRemovalTaint"


def test_a_pod_of_a_custom_controller_is_not_evicted_unless_settings_allow_it() -> None:
    pod = a_web_pod("web", owner=("Widget", "w"))
    assert stays(pod) == "PodOfCustomController"
    assert stays(pod, ScaleDownSettings(skip_nodes_with_custom_controller_pods=False)) is None


def test_a_pod_with_local_storage_is_not_evicted_unless_settings_allow_it() -> None:
    pod = a_web_pod("web", volumes=[{"name": "scratch", "emptyDir": {}}])
    assert stays(pod) == "PodHasLocalStorage"
    assert stays(pod, ScaleDownSettings(skip_nodes_with_local_storage=False)) is None
    assert stays(a_web_pod("web", volumes=[{"name": "host", "hostPath": {}}])) == "PodHasLocalStorage"


def test_an_empty_dir_in_memory_is_no_local_storage() -> None:
    assert stays(a_web_pod("web", volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}])) is None


LOCAL = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("scratch,host", None),
        (" host , scratch ", None),
        ("scratch", "PodHasLocalStorage"),
        ("", "PodHasLocalStorage"),
        ("scratch,hosts", "PodHasLocalStorage"),
    ],
)
def test_volumes_annotated_as_safe_do_not_block_an_eviction(annotation: str, reason: str | None) -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/var"}}]
    assert stays(with_annotation(LOCAL, annotation, volumes=volumes)) == reason


def test_an_annotation_with_an_unknown_volume_name_has_no_effect() -> None:
    assert stays(a_web_pod("web", volumes=[{"emptyDir": {}}])) == "PodHasLocalStorage"
    assert stays(with_annotation(LOCAL, "scratch,", volumes=[{"emptyDir": {}}])) == "PodHasLocalStorage"


def test_the_reason_names_the_first_local_volume_that_blocks_an_eviction() -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]
    reason = find_drain_problem(placed(with_annotation(LOCAL, "scratch", volumes=volumes)), DisruptionBudgets(()), DOWN)
    assert reason is not None
    assert "cache" in str(reason)


def test_safe_local_volumes_do_not_override_other_reasons() -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}]
    assert stays(with_annotation(LOCAL, "scratch", volumes=volumes, owner=("Widget", "w"))) == "PodOfCustomController"
    assert stays(a_web_pod("web", annotations={LOCAL: "scratch", SAFE: "false"}, volumes=volumes)) == (
        "PodNotSafeToEvict"
    )


def test_a_system_pod_is_evicted_only_if_a_disruption_budget_covers_it() -> None:
    pod = a_web_pod("dns", namespace="kube-system", labels=WEB)
    assert stays(pod) == "PodOfSystem"
    assert stays(pod, DOWN, a_budget("dns", 1, WEB, namespace="kube-system")) is None
    assert stays(pod, ScaleDownSettings(skip_nodes_with_system_pods=False)) is None


def test_a_pod_annotated_as_safe_to_evict_may_be_evicted_whatever_its_kind() -> None:
    plain_pod = with_annotation(SAFE, "true", volumes=[{"name": "scratch", "emptyDir": {}}], namespace="kube-system")
    assert stays(plain_pod) is None


@pytest.mark.parametrize("key", [SAFE, "karpenter.sh/do-not-disrupt"])
def test_an_expendable_pod_keeps_no_node_whatever_its_annotations(key: str) -> None:
    assert stays(a_pod("cheap", priority=-100)) is None
    value = "false" if key == SAFE else "true"
    assert stays(with_annotation(key, value, priority=-100)) is None
    assert stays(with_annotation(key, value, priority=-10)) == "PodNotSafeToEvict"


def test_the_reason_of_a_node_names_the_pod_that_keeps_it() -> None:
    cluster = ShrinkingCluster(a_group("small"))
    cluster.add_group_nodes("small", 2).place(a_pod("bare", "1"), "small-1")
    cluster.plan_removals()
    assert cluster.reason_code("small-1") == "PodNotReplicated"
    assert str(cluster.decisions["small-1"].reason) == "default/bare: it has no controller"


def test_terminating_pods_do_not_keep_a_node_and_overdue_ones_are_ignored() -> None:
    going = ShrinkingCluster(a_group("small"))
    going.add_group_nodes("small", 1).place(a_pod("bare"), "small-1")
    going.mark_terminating("bare", START + 100)
    on = going.snapshot.pods_on("small-1").values()
    before = find_pods_to_drain(on, START, DisruptionBudgets(()), DOWN, DeviceClaims())
    assert [pod.key[1] for pod in before.terminating] == ["bare"]
    assert before.refusal is None
    assert find_pods_to_drain(on, START + 131, DisruptionBudgets(()), DOWN, DeviceClaims()).is_empty


# Disruption budgets


def refused(pod: PlacedPod, *budgets: Any) -> str | None:
    reason = DisruptionBudgets(budgets).find_eviction_problem(pod.pod)
    return reason.reason.code if reason is not None else None


def test_evictions_use_up_a_disruption_budget() -> None:
    budgets = DisruptionBudgets([a_budget("web", 2, WEB)])
    pods = [placed(a_web_pod(f"web-{at}", labels=WEB)).pod for at in range(3)]
    for pod in pods[:2]:
        assert budgets.find_eviction_problem(pod) is None
        budgets.count_eviction(pod)
    reason = budgets.find_eviction_problem(pods[2])
    assert reason is not None
    assert (reason.reason.code, str(reason)) == ("DisruptionBudgetExhausted", "default/web-2: web")


def test_a_budget_of_another_namespace_or_with_other_labels_does_not_apply() -> None:
    pod = placed(a_web_pod("web", labels=WEB))
    assert refused(pod, a_budget("web", 0, WEB, namespace="other"), a_budget("db", 0, {"app": "db"})) is None


def test_a_pod_under_two_budgets_is_never_evicted() -> None:
    pod = placed(a_web_pod("web", labels=WEB))
    assert refused(pod, a_budget("a", 5, WEB), a_budget("b", 5, WEB)) == "SeveralBudgets"


def test_the_status_of_an_older_generation_of_a_budget_does_not_count() -> None:
    assert (
        refused(placed(a_web_pod("web", labels=WEB)), a_budget("web", 5, WEB, observed=0))
        == "DisruptionBudgetExhausted"
    )


def test_an_unready_pod_may_be_evicted_if_enough_are_healthy_or_the_policy_is_always_allow() -> None:
    pod = placed(a_web_pod("web", labels=WEB), ready=False)
    assert refused(pod, a_budget("web", 0, WEB)) == "DisruptionBudgetExhausted"
    assert refused(pod, a_budget("web", 0, WEB, currentHealthy=2, desiredHealthy=2)) is None
    always = a_budget("web", 0, WEB, spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})
    assert refused(pod, always) is None
    assert refused(placed(a_web_pod("web", labels=WEB)), always) == "DisruptionBudgetExhausted"


def test_an_unreadable_budget_covers_no_pod_and_affects_no_other() -> None:
    bad = a_budget("bad", 0, {}, spec={"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}})
    pod = placed(a_web_pod("web", labels=WEB))
    assert refused(pod, bad) is None
    assert refused(pod, bad, a_budget("web", 0, WEB)) == "DisruptionBudgetExhausted"


def test_no_budget_applies_to_a_pod_that_does_not_run_yet() -> None:
    pod = a_web_pod("web", labels=WEB)
    assert DisruptionBudgets([a_budget("web", 0, WEB)]).find_eviction_problem(pod) is None


def test_an_eviction_shortens_only_a_grace_period_that_is_too_long() -> None:
    cluster = ShrinkingCluster(a_group("small"))
    cluster.add_group_nodes("small", 2).run("small-1", a_web_pod("full", "3"))
    cluster.run("small-2", a_web_pod("slow", "100m", terminationGracePeriodSeconds=3600), a_web_pod("plain", "100m"))
    cluster.run_pass(600)
    cluster.run_pass(6)
    cluster.run_pass(6)
    graces = {action.name: action.grace_period_seconds for action in cluster.plan_removals().actions}  # type: ignore[union-attr]
    assert graces == {"slow": 600, "plain": None}
