"""What an explanation tells of a VPA, of a pod and of a recommendation."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from support.builders.collected_clusters import BOOST, COMPONENTS, NAMESPACE, Cluster
from support.worlds.resizes import DAY, NOW, Document, container, time
from trellis.base.errors import InvalidInput
from trellis.core.cluster.dump_format import ContainerHistory, MissingData
from trellis.core.explain import CollectedSettings, ObjectExplanation, explain_pod, explain_recommendation, explain_vpa
from trellis.core.explain.explanation.document import AmountChangePart
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.planner import PlanResult
from trellis.core.resize.settings import HpaConflict, UpdateSettings

BIG = {"app": {"cpu": "2", "memory": "2Gi"}}
SAME = {"app": {"cpu": "500m", "memory": "1Gi"}}


FLAG, IN_PLACE = "--in-place-skip-disruption-budget", "InPlaceOrRecreate"


def cluster(targets: Document | None = None, **vpa: object) -> Cluster:
    """Two pods that request 500m and 1Gi, and a VPA."""
    observed = Cluster()
    observed.add_workload()
    observed.add_vpa("web", targets, **vpa)  # type: ignore[arg-type]
    return observed


def pod(observed: Cluster, components: CollectedSettings | None = None) -> Document:
    """What is told of the first pod: the verdict, and what would have to change."""
    part = explain_pod(observed.evidence(components), "web-1-0").pods[0]
    return {
        "way": part.way,
        "reason": part.reason.code,
        "otherwise": {counterfactual.code: counterfactual.values for counterfactual in part.counterfactuals},
    }


def codes(explained: ObjectExplanation) -> set[str]:
    return {missing.reason.code for missing in explained.missing}


def chain(steps: tuple[AmountChangePart, ...]) -> list[tuple[str, str, str, str]]:
    return [(step.resource, step.reason.code, step.before, step.after) for step in steps]


# Recommendations


def test_every_stage_that_changed_a_target_is_reported_with_its_result() -> None:
    observed = Cluster()
    observed.add_workload()
    policy = {"containerName": "app", "minAllowed": {"cpu": "310m"}, "maxAllowed": {"memory": "256Mi"}}
    observed.add_vpa("web", resourcePolicy={"containerPolicies": [policy]})
    observed.add_checkpoint(cpu=0.2)
    components = CollectedSettings(pipeline=PipelineSettings(round_cpu_millicores=50))
    (app,) = explain_recommendation(observed.evidence(components), "web").containers
    assert chain(app.steps) == [
        ("cpu", "RoundedUp", "296m", "300m"),
        ("cpu", "CappedToMinAllowed", "300m", "310m"),
        ("memory", "CappedToMaxAllowed", "442809964", "256Mi"),
    ]
    assert app.decided["recommended"]["target"] == {"cpu": "310m", "memory": "256Mi"}


def test_the_maximum_of_the_cluster_is_distinguished_from_that_of_a_policy() -> None:
    observed = cluster()
    observed.add_checkpoint(cpu=0.2)
    components = CollectedSettings(pipeline=PipelineSettings(max_allowed_cpu=100.0))
    (app,) = explain_recommendation(observed.evidence(components), "web").containers
    assert chain(app.steps) == [("cpu", "CappedToClusterMaximum", "296m", "100m")]


def test_a_resource_that_is_not_controlled_and_one_that_is_kept_are_reported() -> None:
    policy = {"containerPolicies": [{"containerName": "app", "controlledResources": ["cpu"]}]}
    observed = cluster({"app": {"cpu": "700m"}}, resourcePolicy=policy)
    observed.used.append(("web-1-0", "app", NOW - 20, np.nan, 3e8))
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    assert ("cpu", "RecommendationKept", "", "700m") in chain(app.steps)
    assert any(code == "ResourceNotControlled" for _, code, _, _ in chain(app.steps))


def test_a_bound_is_written_as_its_policy_spells_it() -> None:
    observed = cluster(
        resourcePolicy={"containerPolicies": [{"containerName": "app", "maxAllowed": {"memory": "0.1G"}}]}
    )
    observed.add_checkpoint()
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    assert app.steps[-1].after == app.decided["recommended"]["target"]["memory"] == "100M"


def test_one_container_can_be_selected_and_an_unknown_name_gets_a_suggestion() -> None:
    observed = Cluster()
    observed.add_workload("web", 1, container("app"), container("proxy"))
    observed.add_vpa()
    for name in ("app", "proxy"):
        observed.add_checkpoint(container=name)
    evidence = observed.evidence()
    assert [container.name for container in explain_recommendation(evidence, "web", "proxy").containers] == ["proxy"]
    with pytest.raises(InvalidInput, match='did you mean "proxy"'):
        explain_recommendation(evidence, "web", "porxy")


def test_for_a_recommender_that_does_not_run_here_only_the_status_is_reported() -> None:
    observed = cluster(BIG, recommenders=[{"name": "oracle"}])
    explained = explain_vpa(observed.evidence(), "web")
    assert explained.vpa is not None
    assert (explained.vpa.recommender, explained.vpa.is_answered, explained.vpa.pods) == ("oracle", False, 2)
    assert "RecommenderNotAvailable" in codes(explained)
    assert pod(observed)["way"] == "Evict"
    answered = explain_vpa(observed.evidence(CollectedSettings(names=("oracle",))), "web")
    assert answered.vpa is not None
    assert answered.vpa.is_answered


# Usage


def test_usage_is_drawn_from_series_if_there_are_any_and_else_from_a_histogram() -> None:
    observed = cluster()
    observed.add_checkpoint()
    assert {curve.source for curve in explain_recommendation(observed.evidence(), "web").containers[0].usage} == {
        "histogram"
    }
    times = np.arange(NOW - DAY, NOW, 300.0)
    observed.history = [
        ContainerHistory(NAMESPACE, "web-1-0", "app", times, np.linspace(0.1, 0.4, len(times)), times * 0 + 1e8)
    ]
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    cpu, memory = app.usage
    assert (cpu.source, cpu.since, cpu.least, cpu.most) == ("series", time(NOW - DAY), "100m", "400m")
    assert list(cpu.values) == sorted(value or 0.0 for value in cpu.values)
    assert len(set(memory.values)) == 1


def test_series_take_the_place_of_a_checkpoint_and_never_count_beside_one() -> None:
    observed = cluster()
    times = np.arange(NOW - DAY, NOW - 60, 300.0)
    observed.history = [ContainerHistory(NAMESPACE, "web-1-0", "app", times, times * 0 + 0.5, times * 0 + 1e9)]
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    assert (app.history, app.decided["samples"]) == ("series", len(times))
    observed.add_checkpoint(days=0.5)
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    assert (app.history, app.decided["samples"]) == ("checkpoint", 71)


def test_hours_are_drawn_where_the_recommender_keeps_them() -> None:
    observed = cluster(recommenders=[{"name": "seasonal"}])
    observed.add_checkpoint(days=2.0, hours=True)
    (app,) = explain_recommendation(observed.evidence(), "web").containers
    cpu = app.usage[0]
    assert (cpu.source, cpu.since, cpu.until) == ("hours", time(NOW - 2 * DAY), time(NOW - 3600))


# Verdicts


@pytest.mark.parametrize(
    ("change", "reason", "otherwise"),
    [
        (lambda cluster: cluster.add_vpa("web", SAME), "SizeAsRecommended", {"RecommendationChanged": {}}),
        (lambda cluster: cluster.add_vpa("web"), "NothingRecommended", {"RecommendationPublished": {}}),
        (
            lambda cluster: cluster.add_vpa("web", BIG, mode="Initial"),
            "ModeDoesNotUpdatePods",
            {"ModeChanged": {"mode": "Initial"}},
        ),
        (
            lambda cluster: cluster.add_vpa("web", BIG, annotations={"trellis.x-k8s.io/freeze": "alice"}),
            "Frozen",
            {"FreezeLifted": {"by": "alice", "where": "object", "why": ""}},
        ),
        (
            lambda cluster: cluster.add_vpa("web", BIG, updatePolicy={"minReplicas": 5}),
            "TooFewReplicas",
            {"ReplicasAdded": {"living": 2.0, "minimum": 5.0}, "BudgetSkipped": {"flag": FLAG, "mode": IN_PLACE}},
        ),
        (
            lambda cluster: cluster.put("Lease", "vpa-admission-controller", {}, namespace="kube-system"),
            "AdmissionAbsent",
            {"AdmissionThere": {"lease": "kube-system/vpa-admission-controller"}},
        ),
    ],
)
def test_a_decision_is_reported_with_its_counterfactuals(change: object, reason: str, otherwise: Document) -> None:
    observed = cluster(BIG)
    change(observed)  # type: ignore[operator]
    explained = pod(observed)
    assert (explained["reason"], explained["otherwise"]) == (reason, otherwise)


def single(*containers: Document, mode: str = IN_PLACE, **vpa: object) -> Cluster:
    """One replica that should have more, below the updater's minimum of two."""
    observed = Cluster()
    observed.add_workload("web", 1, *containers)
    observed.add_vpa("web", BIG, mode=mode, **vpa)
    return observed


def test_a_single_replica_names_the_flag_that_would_have_it_resized() -> None:
    explained = pod(single())
    assert (explained["way"], explained["reason"]) == ("Wait", "TooFewReplicas")
    assert explained["otherwise"]["BudgetSkipped"] == {"flag": FLAG}
    assert pod(single(mode="Recreate"))["otherwise"]["BudgetSkipped"] == {"flag": FLAG, "mode": IN_PLACE}
    set_already = CollectedSettings(updates=UpdateSettings(skip_disruption_budget=True))
    assert pod(single(), set_already)["way"] == "Resize"


def test_the_flag_is_not_named_where_the_resize_restarts_a_container_or_is_impossible() -> None:
    restarting = single(container(restarts=("cpu",)))
    without_requests = single(container(cpu=None, memory=None))
    for observed in (restarting, without_requests):
        explained = pod(observed)
        assert (explained["reason"], set(explained["otherwise"])) == ("TooFewReplicas", {"ReplicasAdded"})
    set_already = CollectedSettings(updates=UpdateSettings(skip_disruption_budget=True))
    assert set(pod(restarting, set_already)["otherwise"]) == {"ReplicasAdded"}


def crashed(observed: Cluster, state: Document, last: Document | None = None, **metadata: object) -> Cluster:
    """The containers of the pods are in this state, and were in that one before."""
    for name in ("web-1-0", "web-1-1"):
        document = observed.objects["Pod", ("shop", name)]
        document["metadata"] |= metadata
        document["status"]["containerStatuses"][0] |= {"state": state, **({"lastState": last} if last else {})}
    return observed


ENDED = {
    "terminated": {
        "reason": "OOMKilled",
        "exitCode": 137,
        "startedAt": time(NOW - 90),
        "finishedAt": time(NOW - 30),
    }
}


def test_a_container_that_is_down_is_named_with_its_deadline() -> None:
    explained = pod(crashed(cluster(BIG, mode="InPlaceOrRecreate"), ENDED))
    assert explained == {
        "way": "Wait",
        "reason": "ContainerDown",
        "otherwise": {"ContainersRun": {"containers": "app"}, "TimePassed": {"at": time(NOW + 30)}},
    }


def test_a_resize_that_was_missed_is_reported() -> None:
    resized = [{"manager": "kubectl", "time": time(NOW - 20), "subresource": "resize"}]
    observed = cluster(SAME, mode="InPlace")
    crashed(observed, {"running": {"startedAt": time(NOW - 10)}}, ENDED, managedFields=resized)
    part = explain_pod(observed.evidence(), "web-1-0").pods[0]
    assert part.need is not None
    assert (part.way, part.need.code) == ("Resize", "ResizeMissed")


def test_requirements_that_are_not_met_are_named() -> None:
    asked = [{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]
    explained = pod(cluster(BIG, updatePolicy={"evictionRequirements": asked}))
    assert explained["reason"] == "RequirementsForbidEviction"
    assert explained["otherwise"] == {"RequirementsMet": {"resources": "cpu", "change": "TargetLowerThanRequests"}}


def test_a_pod_within_its_bounds_reports_how_far_off_it_is_and_when_it_is_old_enough() -> None:
    observed = cluster(SAME)
    wide = {"lowerBound": {"cpu": "1m", "memory": "1Mi"}, "upperBound": {"cpu": "9", "memory": "9Gi"}}
    advice = {"containerName": "app", "target": {"cpu": "520m", "memory": "1Gi"}, **wide}
    vpa = observed.objects["VerticalPodAutoscaler", (NAMESPACE, "web")]
    vpa["status"] = {"recommendation": {"containerRecommendations": [advice]}}
    explained = pod(observed)
    assert explained["reason"] == "ChangeTooSmall"
    assert explained["otherwise"]["DifferenceLarger"] == {"difference": pytest.approx(0.04), "threshold": 0.1}
    advice["target"] = {"cpu": "700m", "memory": "1Gi"}
    observed.add_workload(age=3600.0)
    explained = pod(observed)
    assert explained["reason"] == "PodTooYoung"
    assert explained["otherwise"]["TimePassed"] == {"at": time(NOW - 3600 + 12 * 3600)}


def test_a_pod_that_waits_for_others_reports_how_many_are_in_service() -> None:
    parts = explain_vpa(cluster(BIG).evidence(), "web").pods
    assert sorted(part.way for part in parts) == ["Evict", "Wait"]
    (waits,) = (part for part in parts if part.way == "Wait")
    assert waits.budget is not None
    assert (waits.budget.configured, waits.budget.ready, waits.budget.tolerated) == (2, 1, 1)
    assert waits.counterfactuals[0].values == {"ready": 1.0, "least": 1.0}


def test_an_hpa_that_holds_a_resource_is_named_and_reported() -> None:
    observed = cluster({"app": {"cpu": "2", "memory": "1Gi"}})
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric], "maxReplicas": 9}
    observed.put("HorizontalPodAutoscaler", "web", {"spec": spec})
    components = CollectedSettings(updates=UpdateSettings(hpa_conflict=HpaConflict.HOLD))
    explained = pod(observed, components)
    assert (explained["reason"], explained["otherwise"]) == ("HeldForHpa", {"HpaChanged": {"resources": "cpu"}})
    (say,) = (
        influence
        for influence in explain_vpa(observed.evidence(), "web").influences
        if influence.kind == "HorizontalPodAutoscaler"
    )
    assert (say.name, say.values["byUtilizationOf"]) == ("web", ["cpu"])


def test_the_steps_from_a_recommendation_to_the_size_of_a_pod_are_reported() -> None:
    observed = cluster(BIG)
    observed.put("LimitRange", "bounds", {"spec": {"limits": [{"type": "Container", "max": {"memory": "1536Mi"}}]}})
    observed.add_workload("web", 2, container(limits={"memory": "1Gi"}))
    part = explain_pod(observed.evidence(), "web-1-0").pods[0]
    (app,) = part.containers
    assert (app.requests, app.targets) == ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "1536Mi"})
    assert ("memory", "CappedToLimitRangeMax", "2Gi", "1536Mi") in chain(app.steps)


def test_a_boost_reports_its_phase_its_end_and_the_resources_before_it() -> None:
    observed = Cluster()
    annotations = {BOOST: '{"requests":{"cpu":"100m","memory":"1Gi"}}'}
    observed.add_workload(annotations=annotations, ready_for=10.0)
    boost = {"cpu": {"type": "Factor", "factor": 5, "durationSeconds": 60}}
    observed.add_vpa("web", SAME, startupBoost=boost)
    (boost_part,) = explain_pod(observed.evidence(), "web-1-0").pods[0].boosts
    assert (boost_part.phase, boost_part.reason.code, boost_part.until) == (
        "Held",
        "BoostUntilDuration",
        time(NOW + 50),
    )
    assert boost_part.before == {"requests": {"cpu": "100m", "memory": "1Gi"}}


def test_a_pod_that_nothing_governs_and_one_that_is_only_recommended_for() -> None:
    observed = cluster(BIG, mode="Off")
    assert pod(observed)["reason"] == "OnlyRecommends"
    observed.add_workload("other", 1)
    explained = explain_pod(observed.evidence(), "other-1-0")
    assert (explained.pods[0].reason.code, explained.vpa) == ("PodNotGoverned", None)


# What a new pod gets, and who else has a say


def test_a_new_pod_gets_what_admission_would_give_to_its_template() -> None:
    (new,) = explain_vpa(cluster(BIG).evidence(), "web").new_pods
    assert (new.workload, new.reason.code) == ("Deployment web", "PodSized")
    assert new.account["containers"]["app"]["requests"] == {"cpu": ["500m", "2"], "memory": ["1Gi", "2Gi"]}


def test_budgets_of_others_are_reported_only_if_they_cover_the_pods() -> None:
    observed = cluster(BIG)
    for app in ("web", "db"):
        budget = {"spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": 1}}
        observed.put("PodDisruptionBudget", app, budget)
    says = [(influence.kind, influence.name) for influence in explain_vpa(observed.evidence(), "web").influences]
    assert ("PodDisruptionBudget", "web") in says
    assert ("PodDisruptionBudget", "db") not in says


def test_rivals_and_a_target_that_cannot_be_used_are_reported() -> None:
    observed = cluster(BIG)
    observed.add_vpa("young", BIG, target="web")
    observed.objects["VerticalPodAutoscaler", (NAMESPACE, "young")]["metadata"]["creationTimestamp"] = time(NOW - DAY)
    young = explain_vpa(observed.evidence(), "young")
    assert young.vpa is not None
    assert young.vpa.rivals == ("web",)
    assert {pod.by for pod in young.pods} == {"VerticalPodAutoscaler web"}
    observed.add_vpa("lost", target="nowhere")
    lost = explain_vpa(observed.evidence(), "lost")
    assert lost.vpa is not None
    assert "does not exist" in lost.vpa.problem


def test_events_about_the_object_and_its_pods_are_reported_oldest_first() -> None:
    observed = cluster(BIG)
    for number, (kind, name) in enumerate((("Pod", "web-1-0"), ("VerticalPodAutoscaler", "web"), ("Pod", "other"))):
        about = {"kind": kind, "name": name, "namespace": NAMESPACE}
        event = {"involvedObject": about, "reason": "EvictedByVPA", "message": "m", "lastTimestamp": time(NOW - number)}
        observed.put("Event", f"e{number}", event)
    assert [item.about for item in explain_vpa(observed.evidence(), "web").events] == [
        "VerticalPodAutoscaler web",
        "Pod web-1-0",
    ]


# What could not be seen


def test_missing_objects_are_named_and_make_the_explanation_partial() -> None:
    observed = cluster(BIG)
    observed.use("web-1-0")
    assert not explain_vpa(observed.evidence(), "web").partial
    observed.missing = [
        MissingData("PodDisruptionBudget", NAMESPACE, "is forbidden"),
        MissingData("Pod", "elsewhere", "is forbidden"),
        MissingData("ConfigMap trellis-freeze", "kube-system", "is forbidden"),
    ]
    explained = explain_vpa(observed.evidence(), "web")
    assert explained.partial
    names = [missing.details for missing in explained.missing if missing.reason.code == "ObjectsNotObserved"]
    assert names == [
        "PodDisruptionBudget in shop: is forbidden",
        "ConfigMap trellis-freeze in kube-system: is forbidden",
    ]


def test_headroom_on_nodes_is_not_judged_by_a_part_of_the_pods() -> None:
    observed = cluster({"app": {"cpu": "63", "memory": "1Gi"}})
    observed.add_workload("big", 1, container(cpu="40"))
    warned = {warning.code for part in explain_vpa(observed.evidence(), "web").pods for warning in part.warnings}
    assert "WouldNotFit" in warned
    observed.patterns = (NAMESPACE,)
    explained = explain_vpa(observed.evidence(), "web")
    assert not any(part.warnings for part in explained.pods)
    assert "CapacityNotObserved" in codes(explained)
    content = cluster({"app": {"cpu": "500m", "memory": "1Gi"}})
    content.patterns = (NAMESPACE,)
    assert "CapacityNotObserved" not in codes(explain_vpa(content.evidence(), "web")), (
        "nobody is evicted: room does not matter"
    )


def test_unknown_flags_and_unreadable_checkpoints_are_named() -> None:
    observed = cluster(BIG)
    observed.put("VerticalPodAutoscalerCheckpoint", "web-app", {"spec": {"vpaObjectName": "web"}, "status": {}})
    explained = explain_vpa(
        observed.evidence(CollectedSettings(with_flags=COMPONENTS[1:], problems=("--min-replicas: bad",))), "web"
    )
    assert {"CheckpointUnreadable", "FlagsNotObserved", "FlagUnreadable"} <= codes(explained)


# Names


def test_an_unknown_name_gets_a_suggestion_or_its_namespace() -> None:
    observed = cluster(BIG)
    evidence = observed.evidence()
    with pytest.raises(InvalidInput, match="no VerticalPodAutoscaler of that name in namespace shop"):
        explain_vpa(evidence, "wbe")
    with pytest.raises(InvalidInput, match='did you mean "web-1-0"'):
        explain_pod(evidence, "web-1-o")
    observed.put("Pod", "lonely", namespace="cellar")
    with pytest.raises(InvalidInput, match="there is one in cellar"):
        explain_pod(observed.evidence(), "lonely")


def test_a_name_of_a_kind_that_may_not_be_read_gets_the_reason() -> None:
    observed = cluster(BIG)
    observed.missing = [MissingData("VerticalPodAutoscaler", NAMESPACE, "is forbidden")]
    with pytest.raises(InvalidInput, match="as VerticalPodAutoscaler in namespace shop: is forbidden"):
        explain_vpa(observed.evidence(), "other")


def test_a_pod_of_an_hvpa_is_explained_as_governed_by_it() -> None:
    observed = Cluster()
    observed.add_workload()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    observed.put("Hvpa", "both", {"spec": {"targetRef": target, "buckets": []}})
    part = explain_pod(observed.evidence(), "web-1-0").pods[0]
    assert (part.by, part.reason.code) == ("Hvpa both", "NothingRecommended")


def test_a_failed_plan_is_explained() -> None:
    evidence = cluster(BIG).evidence()
    plans = {
        workload: PlanResult(planned.snapshot, UpdatePlan((), ()), ValueError("a bug"))
        for workload, planned in evidence.updated.plans.items()
    }
    broken = msgspec.structs.replace(evidence, updated=msgspec.structs.replace(evidence.updated, plans=plans))
    part = explain_pod(broken, "web-1-0").pods[0]
    assert (part.reason.code, part.details) == ("PlanFailed", "ValueError")
