"""An explanation says nothing that the core did not decide: every code and figure of it is found among the answers."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.collected_clusters import BOOST, Cluster
from support.explanation_atoms import Atoms
from support.worlds.resizes import DAY, NOW, container, time
from trellis.base.reasons import Reason
from trellis.core.boost.annotation import read_pre_boost_resources
from trellis.core.explain import (
    CollectedSettings,
    Evidence,
    ObjectExplanation,
    explain_pod,
    explain_recommendation,
    explain_vpa,
    missing_evidence,
)
from trellis.core.explain import pod as own_pods
from trellis.core.explain.counterfactuals import CounterfactualCode
from trellis.core.explain.explanation.document import CounterfactualPart, UsageCurvePart
from trellis.core.recommend.explanations import describe_vpa
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.resize.settings import HpaConflict, UpdateSettings

OWN = {var.code for module in (own_pods, missing_evidence) for var in vars(module).values() if isinstance(var, Reason)}
CPU = ("100m", "250m", "500m", "550m", "1", "2")
MEMORY = ("128Mi", "512Mi", "1Gi", "3Gi")
MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace")
CHANGES = ("TargetHigherThanRequests", "TargetLowerThanRequests")


def decided(evidence: Evidence) -> Atoms:
    """All that was known, and all that was answered."""
    atoms = Atoms()
    recommended, updated = evidence.recommended, evidence.updated
    for number in recommended.last.entries:
        atoms.add(describe_vpa(recommended.last, number))
        atoms.add(recommended.last.entries[number].state)
    for row in range(len(recommended.last.result.columns.keys)):
        place = int(recommended.last.result.columns.container_numbers[row])
        atoms.add(recommended.trace.steps(place) if place >= 0 else ())
    atoms.add(read_pre_boost_resources(pod.metadata.annotations) for pod in evidence.collected.pods)
    atoms.add(
        [recommended.namespace_governance.governance, recommended.namespace_governance.problems, recommended.unreadable]
    )
    for planned in updated.plans.values():
        atoms.add([planned.plan, planned.snapshot])
    atoms.add([updated.sizes, updated.phases, evidence.new_pods, evidence.components, evidence.now])
    for snapshot in (
        evidence.collected.pods,
        evidence.collected.vpas,
        evidence.collected.hpas,
        evidence.collected.pdbs,
    ):
        atoms.add(snapshot.objects.values())
    for more in (evidence.collected.limit_ranges, evidence.collected.quotas, evidence.collected.leases):
        atoms.add(more.objects.values())
    # An amount may be written in another unit than it is counted in, and a text is read in both.
    atoms.numbers |= {float(np.trunc(value)) for value in atoms.numbers if np.isfinite(value)}
    atoms.numbers |= {1000 * value for value in atoms.numbers}
    return atoms


def collect_atoms(explained: ObjectExplanation) -> tuple[Atoms, list[CounterfactualPart]]:
    """What an explanation says, curves aside, and what it says would have to change."""
    turns = [turn for pod in explained.pods for turn in pod.counterfactuals]
    atoms = Atoms()
    bare = [msgspec.structs.replace(container, usage=()) for container in explained.containers]
    atoms.add(msgspec.structs.replace(explained, containers=tuple(bare)))
    return atoms, turns


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Cluster, CollectedSettings]:
    """A workload in some state, with a VPA that says something, and others that may have a say."""
    cluster = Cluster()
    requests = {"cpu": draw(st.sampled_from((None, *CPU))), "memory": draw(st.sampled_from((None, *MEMORY)))}
    limits = draw(st.sampled_from(({}, {"cpu": "2", "memory": "4Gi"})))
    names = ["app", "sidecar"][: draw(st.integers(1, 2))]
    boosted = draw(st.booleans())
    replicas = draw(st.integers(1, 4))
    listed = [container(name, **requests, limits=limits) for name in names]
    annotations = {BOOST: '{"requests":{"cpu":"100m"}}'} if boosted else {}
    age, ready = draw(st.sampled_from((60.0, 2 * DAY))), draw(st.booleans())
    cluster.add_workload("web", replicas, *listed, age=age, ready=ready, annotations=annotations)
    policy: dict[str, Any] = {"containerName": "app"}
    policy |= draw(
        st.sampled_from(({}, {"mode": "Off"}, {"controlledResources": ["cpu"]}, {"minAllowed": {"cpu": "1"}}))
    )
    policy |= draw(st.sampled_from(({}, {"maxAllowed": {"memory": "256Mi"}}, {"controlledValues": "RequestsOnly"})))
    asked = draw(st.lists(st.sampled_from(CHANGES), max_size=1))
    needed = [{"resources": ["cpu"], "changeRequirement": name} for name in asked]
    targets = {name: {"cpu": draw(st.sampled_from(CPU)), "memory": draw(st.sampled_from(MEMORY))} for name in names}
    more = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}} if boosted else {}
    cluster.add_vpa(
        "web",
        draw(st.sampled_from((None, targets))),
        mode=draw(st.sampled_from(MODES)),
        resourcePolicy={"containerPolicies": [policy]},
        updatePolicy={"evictionRequirements": needed} if needed else {},
        annotations={"trellis.x-k8s.io/freeze": "alice"} if draw(st.integers(0, 5)) == 0 else {},
        **more,
    )
    if draw(st.booleans()):
        cluster.add_checkpoint(days=0.5)
    for number in range(replicas):
        cluster.use(f"web-1-{number}", cpu=draw(st.sampled_from((0.05, 0.4))))
    _add_others(draw, cluster)
    return cluster, _components(draw)


def _add_others(draw: st.DrawFn, cluster: Cluster) -> None:
    if draw(st.booleans()):
        bound = draw(st.sampled_from(({"max": {"cpu": "400m"}}, {"min": {"memory": "600Mi"}})))
        type_ = draw(st.sampled_from(("Container", "Pod")))
        cluster.put("LimitRange", "bounds", {"spec": {"limits": [{"type": type_, **bound}]}})
    if draw(st.booleans()):
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
        target = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric], "maxReplicas": 9}
        cluster.put("HorizontalPodAutoscaler", "web", {"spec": target})
    if draw(st.booleans()):
        budget = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
        cluster.put("PodDisruptionBudget", "web", {"spec": budget, "status": {"disruptionsAllowed": 1}})
    if draw(st.integers(0, 3)) == 0:
        gone = {"spec": {"renewTime": time(NOW - 3600)}}
        cluster.put("Lease", "vpa-admission-controller", gone, namespace="kube-system")


def _components(draw: st.DrawFn) -> CollectedSettings:
    return CollectedSettings(
        pipeline=PipelineSettings(
            round_cpu_millicores=draw(st.sampled_from((1, 50))),
            humanize_memory=draw(st.booleans()),
            max_allowed_cpu=draw(st.sampled_from((0.0, 300.0))),
        ),
        updates=UpdateSettings(
            hpa_conflict=draw(st.sampled_from(list(HpaConflict))),
            hourly=draw(st.sampled_from((None, 0))),
            require_fit=draw(st.booleans()),
        ),
    )


@given(worlds())
def test_every_code_and_figure_of_an_explanation_comes_from_the_core(
    world: tuple[Cluster, CollectedSettings],
) -> None:
    cluster, components = world
    evidence = cluster.evidence(components)
    known = decided(evidence)
    answers = [explain_vpa(evidence, "web"), explain_pod(evidence, "web-1-0"), explain_recommendation(evidence, "web")]
    for explained in answers:
        atoms, turns = collect_atoms(explained)
        assert atoms.codes <= known.codes | OWN
        unknown = {number for number in atoms.numbers - known.numbers if np.isfinite(number)}
        assert not unknown - _counted(explained), unknown
        assert {turn.code for turn in turns} <= {code.value for code in CounterfactualCode}


def _counted(explained: ObjectExplanation) -> set[float]:
    """Figures that are counts of what is told, and no decisions: pods that must stay are all less those that may go."""
    stay = {float(pod.budget.configured - pod.budget.tolerated) for pod in explained.pods if pod.budget}
    return stay | {0.0, 1.0}


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_the_verdict_on_a_pod_is_the_one_of_its_plan(world: tuple[Cluster, CollectedSettings]) -> None:
    cluster, components = world
    evidence = cluster.evidence(components)
    plans = evidence.updated.plans.values()
    verdicts = {decision.pod.name: decision for planned in plans for decision in planned.plan.decisions}
    for pod in explain_vpa(evidence, "web").pods:
        if pod.name in verdicts:
            verdict = verdicts[pod.name]
            assert (pod.way, pod.reason, pod.warnings) == (verdict.kind.value, verdict.reason, verdict.warnings)
            assert pod.need == (verdict.need.reason if verdict.need is not None else None)
        else:
            assert pod.reason.code in {own_pods.ONLY_RECOMMENDS.code, "PodNotGoverned"}


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_the_steps_of_a_target_lead_from_the_estimate_to_the_recommendation(
    world: tuple[Cluster, CollectedSettings],
) -> None:
    cluster, components = world
    explained = explain_recommendation(cluster.evidence(components), "web")
    for container_part in explained.containers:
        for resource in ("cpu", "memory"):
            estimated = container_part.decided["found"].get("target", {}).get(resource, "")
            recommended = container_part.decided["recommended"].get("target", {}).get(resource, "")
            steps = [step for step in container_part.steps if step.resource == resource]
            assert [estimated, *(step.after for step in steps)] == [*(step.before for step in steps), recommended]


def test_a_curve_of_a_histogram_has_all_of_its_weight() -> None:
    cluster = Cluster()
    cluster.add_workload()
    cluster.add_vpa()
    cluster.add_checkpoint()
    (container,) = explain_recommendation(cluster.evidence(), "web").containers
    curve: UsageCurvePart
    for curve in container.usage:
        assert curve.source == "histogram"
        assert abs(sum(value or 0.0 for value in curve.values) - 1) < 1e-9
