"""What an explanation tells of a Buffer: chunks, shape, schedule, quotas, room and cost."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.collected_clusters import COMPONENTS, NAMESPACE, Cluster, deployment, spare
from support.explanation_atoms import Atoms
from support.worlds.resizes import DAY, NOW, Document, container, time
from trellis.base.errors import InvalidInput
from trellis.base.prices import Prices
from trellis.core.buffers import BufferSettings, Translation
from trellis.core.cluster.dump_format import DumpedScale, MissingData
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.target_problems import TARGET_NOT_SCALABLE, TargetProblem
from trellis.core.explain import CollectedSettings, Evidence, ObjectExplanation, explain_buffer, explain_vpa
from trellis.core.explain.buffer_headroom import BufferHeadroom
from trellis.core.explain.buffer_translation import translate_buffers
from trellis.core.explain.explanation.buffer import BufferPart, ChunkPart, HeadroomPart

ROLLOUT = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}
NOBODY_SEES = CollectedSettings(with_flags=COMPONENTS)


def exactly(count: int, target: Document | None = None, **spec: Any) -> Document:
    return {"targetRef": target or deployment("web"), "capacity": {"replicas": {"exactly": count}}, **spec}


def given_pods(count: int, *containers: Document, **spec: Any) -> Document:
    pods = {"replicaNum": count, "podSpec": {"containers": list(containers) or [container()]}}
    return {"capacity": {"pods": pods}, **spec}


def world(replicas: int = 10, **spec: Any) -> Cluster:
    cluster = Cluster()
    cluster.add_workload("web", replicas)
    cluster.add_buffer("web", **spec)
    return cluster


def read_part(explained: ObjectExplanation) -> BufferPart:
    assert explained.buffer is not None
    return explained.buffer


def explained(cluster: Cluster, name: str = "web", components: CollectedSettings | None = None) -> BufferPart:
    return read_part(explain_buffer(cluster.evidence(components), name))


def chunk_of(part: BufferPart) -> ChunkPart:
    assert part.chunk is not None
    return part.chunk


def headroom_of(part: BufferPart) -> HeadroomPart:
    assert part.headroom is not None
    return part.headroom


def missing_codes(explanation: ObjectExplanation) -> list[str]:
    return [missing.reason.code for missing in explanation.missing]


# How many, and of which shape


def test_a_share_of_the_replicas_is_reported_with_how_it_comes_about() -> None:
    part = explained(world(12))
    assert part.requested_capacity is not None
    assert (
        part.requested_capacity.way,
        part.requested_capacity.replicas,
        part.requested_capacity.percent,
        part.requested_capacity.least,
    ) == ("percent", 12, 20, 1)
    assert (part.desired_chunks, part.chunks, part.totals) == (3, 3, {"cpu": "1500m", "memory": "3Gi"})


def test_a_chunk_is_as_big_as_the_pods_that_will_come() -> None:
    cluster = world()
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, mode="Initial")
    chunk = chunk_of(explained(cluster))
    assert (chunk.source.code, chunk.like) == ("ShapedLikePod", "web-1-9")
    assert chunk.governor == "VerticalPodAutoscaler web"
    (only,) = chunk.containers
    assert (only.requests, only.shown) == ({"cpu": "1", "memory": "2Gi"}, {"cpu": "500m", "memory": "1Gi"})


def test_an_hvpa_sizes_a_chunk_as_it_sizes_pods() -> None:
    cluster = world()
    amounts = {"cpu": "3", "memory": "2Gi"}
    recommended = [{"containerName": "app", "target": amounts, "lowerBound": amounts, "upperBound": amounts}]
    cluster.add_hvpa("web", status={"recommendation": {"containerRecommendations": recommended}})
    chunk = chunk_of(explained(cluster))
    assert (chunk.governor, chunk.requests) == ("Hvpa web", amounts)


def test_a_vpa_that_only_recommends_sizes_no_chunk() -> None:
    cluster = world()
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, mode="Off")
    chunk = chunk_of(explained(cluster))
    assert (chunk.governor, chunk.requests["cpu"]) == ("", "500m")


def test_a_boost_is_part_of_what_a_new_pod_requests() -> None:
    cluster = world()
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}}
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, mode="Initial", startupBoost=boost)
    (only,) = chunk_of(explained(cluster)).containers
    assert (only.boosted, only.requests["cpu"]) == (True, "3")


def test_without_a_live_pod_the_template_shows_the_shape_as_it_is_written() -> None:
    cluster = world(0, **exactly(2))
    explanation = explain_buffer(cluster.evidence(), "web")
    assert (chunk_of(read_part(explanation)).source.code, read_part(explanation).chunks) == ("ShapedLikeTemplate", 2)
    assert "TemplateNotObserved" in missing_codes(explanation)


def test_the_scale_subresource_counts_for_unknown_kinds() -> None:
    cluster = world(4, targetRef=ROLLOUT, capacity={"replicas": {"percent": {"percent": 50}}})
    target = TargetRef(NAMESPACE, "argoproj.io/v1alpha1", "Rollout", "web")
    cluster.scales = [DumpedScale(target, ScaleInfo("app=web"), replicas=9)]
    part = explained(cluster)
    assert (part.desired_chunks, chunk_of(part).like) == (5, "web-1-3")


def test_a_scale_is_believed_for_a_kind_that_is_called_like_a_well_known_one() -> None:
    theirs = {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "web"}
    cluster = world(4, targetRef=theirs, capacity={"replicas": {"percent": {"percent": 50}}})
    cluster.scales = [DumpedScale(TargetRef(NAMESPACE, *theirs.values()), ScaleInfo("app=web"), replicas=9)]
    assert explained(cluster).desired_chunks == 5


def test_the_last_shape_stands_for_a_kind_without_a_template() -> None:
    cluster = world(1, **exactly(2, ROLLOUT))
    cluster.scales = [DumpedScale(TargetRef(NAMESPACE, ROLLOUT["apiVersion"], "Rollout", "web"), ScaleInfo("app=web"))]
    cluster.publish_buffers()
    del cluster.objects["Pod", (NAMESPACE, "web-1-0")]
    assert chunk_of(explained(cluster)).source.code == "ShapedLikeBefore"


def test_a_job_counts_by_its_parallelism() -> None:
    cluster = Cluster()
    template = {"metadata": {"labels": {"job": "sums"}}, "spec": {"containers": [container()]}}
    job = {"parallelism": 6, "selector": {"matchLabels": {"job": "sums"}}, "template": template}
    cluster.put("Job", "sums", {"apiVersion": "batch/v1", "spec": job})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "sums"}
    cluster.add_buffer("sums", targetRef=reference, capacity={"replicas": {"percent": {"percent": 50}}})
    assert explained(cluster, "sums").chunks == 3


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        (deployment("wbe"), "TargetNotFound"),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"}, "TargetNotScalable"),
        (ROLLOUT, "TargetUnreachable"),
    ],
)
def test_a_target_that_cannot_be_used_is_reported(reference: Document, code: str) -> None:
    part = explained(world(**exactly(2, reference)))
    assert part.ready is not None
    assert (part.ready.reason.code, part.is_ready, part.chunks, part.chunk) == (code, False, 0, None)


def test_a_problem_of_an_unknown_kind_names_the_missing_evidence() -> None:
    cluster = world(**exactly(2, ROLLOUT))
    problem = TargetProblem(TARGET_NOT_SCALABLE, "no scale")
    target = TargetRef(NAMESPACE, ROLLOUT["apiVersion"], "Rollout", "web")
    cluster.scales = [DumpedScale(target, ScaleInfo(problem=problem))]
    assert "TargetKindsNotObserved" in missing_codes(explain_buffer(cluster.evidence(), "web"))


def test_a_replica_set_below_a_deployment_is_a_target_too() -> None:
    part = explained(world(3, **exactly(2, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"})))
    assert part.chunks == 2


# What is left of it


def test_a_quota_leaves_less_to_the_youngest_and_elder_ones_are_named() -> None:
    explanation = explain_buffer(spare().evidence(), "web")
    part = read_part(explanation)
    assert part.limited is not None
    assert (part.desired_chunks, part.chunks, part.limited_by) == (3, 2, ("team",))
    says = {(influence.kind, influence.name) for influence in explanation.influences}
    assert says == {("Buffer", "builds"), ("Buffer", "spot"), ("ResourceQuota", "team")}


def test_another_buffer_of_the_same_target_is_named() -> None:
    cluster = world()
    cluster.add_buffer("more", **exactly(3))
    (say,) = (
        influence for influence in explain_buffer(cluster.evidence(), "web").influences if influence.kind == "Buffer"
    )
    assert (say.name, say.values["chunks"], say.values["sameTarget"]) == ("more", 3, True)


def test_pods_that_fill_a_dedicated_buffer_are_counted() -> None:
    part = explained(spare(), "builds")
    assert (part.desired_chunks, part.chunks, part.filled_by) == (4, 2, "app=build")
    assert part.filled == {"cpu": "4", "memory": "8Gi"}
    assert [note.reason.code for note in part.notes] == ["BufferFilled"]


@pytest.mark.parametrize(
    ("start", "is_open", "change"),
    [("0 8 * * 1-5", True, NOW + 9 * 3600), ("0 20 * * 1-5", False, NOW + 11 * 3600)],
)
@pytest.mark.req("BF-50")
def test_a_schedule_reports_whether_it_is_open_and_when_that_changes(start: str, is_open: bool, change: float) -> None:
    schedule = {"timeZone": "Europe/Berlin", "windows": [{"start": start, "duration": "10h"}]}
    part = explained(world(**exactly(2, schedule=schedule)))
    assert part.schedule is not None
    assert (part.schedule.open, part.schedule.next_change) == (is_open, time(change))
    assert (part.is_ready, part.chunks) == (is_open, 2 if is_open else 0)
    assert (part.cost is not None) is is_open


def test_a_buffer_of_another_controller_is_reported_as_skipped_and_nothing_else() -> None:
    part = explained(world(**exactly(2, type="example.com/warm")))
    assert part.skip_reason is not None
    assert (part.skip_reason.reason.code, part.chunk, part.headroom) == ("OtherBufferType", None, None)


def test_the_settings_of_the_controller_count() -> None:
    figures = BufferSettings(most_chunks=4, set_aside=frozenset({"Rollout"}))
    cluster = world(**exactly(9))
    part = explained(cluster, components=CollectedSettings(buffers=figures))
    assert part.ready is not None
    assert (part.ready.reason.code, part.desired_chunks, part.chunks) == ("ChunksTruncated", 9, 4)


def test_a_younger_buffer_takes_nothing_of_a_quota_from_an_older_one() -> None:
    cluster = world(1, **given_pods(5, container(cpu="1")))
    cluster.put("ResourceQuota", "team", {"spec": {"hard": {"requests.cpu": "4"}}, "status": {}})
    cluster.add_buffer("elder", age=20 * DAY, **given_pods(1, container(cpu="1")))
    cluster.add_buffer("younger", age=DAY, **given_pods(1, container(cpu="1")))
    explanation = explain_buffer(cluster.evidence(), "web")
    assert (read_part(explanation).chunks, read_part(explanation).limited_by) == (3, ("team",))
    assert [influence.name for influence in explanation.influences if influence.kind == "Buffer"] == ["elder"]


# Classes of nodes, room and cost


def test_a_class_reports_its_labels_its_nodes_and_what_the_smallest_leaves() -> None:
    cluster = spare()
    cluster.add_node("spot-2", "8", "16Gi", **{"karpenter.sh__nodepool": "spot"})
    daemon = container("agent", cpu="400m", memory="1Gi")
    cluster.add_pod("agent", "agent-1", daemon, nodeName="spot-1")
    cluster.objects["Pod", (NAMESPACE, "agent-1")]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"
    part = explained(cluster, "spot")
    assert part.requested_capacity is not None
    assert (part.requested_capacity.labels, part.requested_capacity.nodes) == ({"karpenter.sh/nodepool": "spot"}, 2)
    assert part.requested_capacity.smallest == {"cpu": "3600m", "memory": "15Gi"}
    assert chunk_of(part).placement["nodeSelector"] == {"karpenter.sh/nodepool": "spot"}


def test_one_pod_that_cannot_be_read_keeps_no_buffer_from_being_explained() -> None:
    cluster = world(1, **given_pods(1, container(cpu="1"), podSelector={"matchLabels": {"app": "web"}}))
    cluster.add_pod("web", "odd", container(cpu="much"), status={})
    part = explained(cluster)
    assert (part.chunks, headroom_of(part).chunks) == (1, 1)


@pytest.mark.parametrize("on_top", [True, False])
def test_headroom_is_counted_beside_what_runs_or_as_if_nothing_did(on_top: bool) -> None:
    cluster = Cluster()
    cluster.add_node("n1", "4")
    cluster.add_workload("web", 3, container(cpu="1", memory="1Gi"))
    strategy = "KeepEmpty" if on_top else "KeepMinimum"
    cluster.add_buffer("web", **exactly(3, recreationStrategy=strategy))
    part = explained(cluster)
    headroom = headroom_of(part)
    assert (headroom.nodes, headroom.fitting_nodes, headroom.chunks, part.on_top) == (1, 1, 1 if on_top else 3, on_top)
    assert [(obstacle.reason.code, obstacle.resource) for obstacle in headroom.obstacles] == (
        [("NodeFull", "cpu")] if on_top else []
    )
    # Pods use all of the minimum: an autoscaler that keeps chunks on top of what runs has none to keep.
    assert headroom.kept_on_top == (None if on_top else 0)


def test_a_chunk_that_fits_no_node_has_obstacles() -> None:
    headroom = headroom_of(explained(world(**given_pods(2, container(cpu="500")))))
    assert (headroom.fitting_nodes, headroom.chunks) == (0, 0)
    assert [(obstacle.reason.code, obstacle.resource, obstacle.nodes) for obstacle in headroom.obstacles] == [
        ("NodeTooSmall", "cpu", 1)
    ]


def test_a_node_that_is_not_ready_has_no_headroom() -> None:
    cluster = world(**exactly(2))
    cluster.objects["Node", ("", "n1")]["status"]["conditions"][0]["status"] = "False"
    assert headroom_of(explained(cluster)).chunks == 0


def test_where_not_all_pods_are_known_free_capacity_is_not_reported() -> None:
    cluster = world(**exactly(2))
    cluster.patterns = ("shop",)
    explanation = explain_buffer(cluster.evidence(), "web")
    assert (headroom_of(read_part(explanation)).fitting_nodes, headroom_of(read_part(explanation)).chunks) == (1, None)
    assert "CapacityNotObserved" in missing_codes(explanation)


def test_headroom_costs_what_it_requests() -> None:
    evidence = world(10).evidence()
    part = read_part(explain_buffer(evidence, "web", Prices("given", "EUR", 0.05, 0.01)))
    assert part.cost is not None
    assert part.cost.hourly == pytest.approx(1 * 0.05 + 2 * 0.01)
    assert part.cost.currency == "EUR"


# What is told of it elsewhere


def test_a_status_that_says_the_same_is_distinguished_from_one_that_does_not() -> None:
    cluster = world(**exactly(2))
    assert (explained(cluster).is_stored, explained(cluster).stored_chunks) == (False, None)
    cluster.publish_buffers()
    assert (explained(cluster).is_stored, explained(cluster).stored_chunks) == (True, 2)
    cluster.objects["Buffer", (NAMESPACE, "web")]["spec"]["capacity"]["replicas"]["exactly"] = 3
    assert (explained(cluster).is_stored, explained(cluster).stored_chunks) == (False, 2)


def test_irrelevant_missing_objects_make_no_explanation_partial() -> None:
    cluster = world()
    cluster.missing = [
        MissingData("PodMetrics", "", "is not served by the cluster"),
        MissingData("Hvpa", "", "is not served by the cluster"),
    ]
    assert not explain_buffer(cluster.evidence(), "web").partial
    cluster.missing = [MissingData("ResourceQuota", NAMESPACE, "may not be read")]
    assert explain_buffer(cluster.evidence(), "web").partial


def test_a_cluster_without_hvpas_and_buffers_lacks_nothing_for_a_vpa() -> None:
    cluster = world()
    cluster.add_vpa("web")
    cluster.use("web-1-0")
    cluster.missing = [MissingData(kind, "", "is not served by the cluster") for kind in ("Hvpa", "Buffer")]
    assert not explain_vpa(cluster.evidence(), "web").partial


def test_unread_flags_are_named() -> None:
    assert "FlagsNotObserved" in missing_codes(explain_buffer(world().evidence(NOBODY_SEES), "web"))
    settings = CollectedSettings(with_flags=("buffers",))
    assert "FlagsNotObserved" not in missing_codes(explain_buffer(world().evidence(settings), "web"))


def test_a_name_that_is_none_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r'no Buffer of that name in namespace shop \(did you mean "web"'):
        explain_buffer(world().evidence(), "wbe")


# All of it is the core's own answer

_CPU = st.integers(1, 4000).map(lambda milli: f"{milli}m")


@st.composite
def worlds(draw: st.DrawFn) -> Cluster:
    cluster = Cluster()
    cluster.add_node("n1", draw(_CPU), "8Gi", **{"karpenter.sh__nodepool": "spot"})
    cluster.add_workload("web", draw(st.integers(0, 12)), container(cpu=draw(_CPU)))
    if draw(st.booleans()):
        mode = draw(st.sampled_from(["Off", "Initial", "Recreate"]))
        cluster.add_vpa("web", {"app": {"cpu": draw(_CPU), "memory": "2Gi"}}, mode=mode)
    percent = {"percent": draw(st.integers(0, 300)), "minCount": draw(st.integers(0, 3))}
    totals = {"totalCpu": draw(_CPU), "totalMem": "4Gi"}
    capacities: list[Document] = [
        {"targetRef": deployment("web"), "capacity": {"replicas": {"percent": percent}}},
        exactly(draw(st.integers(0, 9))),
        {"targetRef": POOL, "capacity": {"nodeClass": totals}},
        given_pods(draw(st.integers(0, 9)), container(cpu=draw(_CPU))),
    ]
    spec = draw(st.sampled_from(capacities))
    if draw(st.booleans()):
        windows = [{"start": draw(st.sampled_from(["0 8 * * *", "0 20 * * *"])), "duration": "10h"}]
        spec = {**spec, "schedule": {"windows": windows}}
    if draw(st.booleans()):
        spec = {**spec, "recreationStrategy": "KeepMinimum", "podSelector": {"matchLabels": {"app": "web"}}}
    cluster.add_buffer("web", age=DAY, **spec)
    cluster.add_buffer("elder", **given_pods(2))
    if draw(st.booleans()):
        hard = {"requests.cpu": draw(_CPU), "pods": str(draw(st.integers(0, 12)))}
        cluster.put("ResourceQuota", "team", {"status": {"hard": hard, "used": {}}})
    return cluster


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_the_counts_and_reasons_are_those_of_the_translation(cluster: Cluster) -> None:
    evidence = cluster.evidence()
    part, made = read_part(explain_buffer(evidence, "web")), _made(evidence)
    assert (part.desired_chunks, part.chunks, part.is_ready, part.limited_by, part.on_top) == (
        made.requested,
        made.chunks,
        made.is_ready,
        made.limited_by,
        made.on_top,
    )
    assert part.ready is not None
    assert [part.ready.reason, *(note.reason for note in part.notes)] == [
        made.ready.reason,
        *(note.reason for note in made.notes),
    ]
    if part.headroom is not None:
        assert 0 <= (part.headroom.chunks or 0) <= part.chunks


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_every_code_and_figure_comes_from_the_core(cluster: Cluster) -> None:
    evidence = cluster.evidence()
    part = read_part(explain_buffer(evidence, "web"))
    known = _collect_known_atoms(evidence)
    atoms = Atoms()
    atoms.add(msgspec.structs.replace(part, headroom=None, cost=None, totals={}, chunk=None))
    atoms.add([part.chunk.containers, part.chunk.source] if part.chunk is not None else [])
    assert atoms.codes <= known.codes
    assert not {number for number in atoms.numbers if number not in known.numbers and not math.isnan(number)}


def _made(evidence: Evidence) -> Translation:
    made = translate_buffers(evidence, BufferHeadroom(evidence.collected))["web"].translation
    assert made is not None
    return made


def _collect_known_atoms(evidence: Evidence) -> Atoms:
    """What was translated, from what, and the time."""
    buffered = translate_buffers(evidence, BufferHeadroom(evidence.collected))["web"]
    atoms = Atoms()
    atoms.add([buffered, _made(evidence).limited, evidence.now, True, False])
    atoms.codes |= {"ShapedLikePod", "ShapedLikeTemplate", "ShapeOfClass", "ShapeGiven"}
    # An amount is written in another unit than it is counted in, and a text is read in both.
    atoms.numbers |= {1000 * number for number in atoms.numbers} | {number / 1000 for number in atoms.numbers}
    atoms.numbers |= {float(math.ceil(number / 1000)) for number in atoms.numbers}
    return atoms
