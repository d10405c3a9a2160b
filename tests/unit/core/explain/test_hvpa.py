"""What an explanation tells of an Hvpa: demand, count, size, and what holds back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders.collected_clusters import BOOST, NAMESPACE, STORY_1, Cluster, search, sized
from support.builders.hvpas import buckets, policies
from support.explanation_atoms import Atoms
from support.worlds.resizes import NOW, Document, container, killed, time
from trellis.api.buckets import RESOURCES
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity
from trellis.core.cluster.dump_format import DumpedScale
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.explain import Evidence, explain_hvpa, explain_pod, explain_vpa, missing_evidence
from trellis.core.explain.component_decisions.hvpa_plans import HvpaEvidence
from trellis.core.explain.explanation.document import ObjectExplanation
from trellis.core.explain.explanation.hvpa import CountChangePart, DemandPart, HvpaPart
from trellis.core.hvpa.ladder import find_desired_count, find_next_count
from trellis.core.hvpa.steps import find_next_window_change
from trellis.core.recommend.amounts import parse_amounts
from trellis.reports.explain.hvpa import source_lines

WINDOW = {"begin": "220000-0000", "end": "230000-0000"}


def world(
    replicas: int = 2, cpu: str = "6", memory: str = "5G", total: Document | None = None, **spec: object
) -> Cluster:
    """Equal pods of one container, an Hvpa of story 1, and its VPA if that says anything."""
    cluster = Cluster()
    cluster.add_workload("web", replicas, container(cpu=cpu, memory=memory))
    cluster.add_hvpa("web", **spec)  # type: ignore[arg-type]
    if total is not None:
        cluster.add_hvpa_vpa("web", {"app": {"cpu": "4", "memory": "3G"}}, {"app": total})
    return cluster


def explain_part(cluster: Cluster, name: str = "web") -> HvpaPart:
    part = explain_hvpa(cluster.evidence(), name).hvpa
    assert part is not None
    return part


def of(part: HvpaPart, resource: str) -> DemandPart:
    return next(demand for demand in part.demands if demand.resource == resource)


def code(part: HvpaPart) -> str:
    return part.verdict.code if part.verdict is not None else ""


# Demand


def test_a_vpa_of_another_hvpa_is_reported_with_its_owner() -> None:
    cluster = world(total={"cpu": "24", "memory": "10G"})
    cluster.add_hvpa("younger", target="web", vpa={"deploy": False})
    cluster.add_vpa("mine", {"app": {"cpu": "1", "memory": "1G"}}, mode="Off", target="other")
    metadata = cluster.objects["Hvpa", (NAMESPACE, "younger")]["metadata"]
    metadata["creationTimestamp"] = time(NOW - 60)
    own, other = explain_part(cluster), explain_part(cluster, "younger")
    assert own.vpa is not None
    assert other.vpa is not None
    assert (own.vpa.owned, own.vpa.owner) == (True, "web")
    assert (other.vpa.owned, other.vpa.owner) == (False, "web")
    assert next(source_lines(own, time(NOW))).startswith("VPA web (owned by this Hvpa) recommends")
    assert next(source_lines(other, time(NOW))).startswith("VPA web (owned by Hvpa web) recommends")


def test_both_sources_are_reported_with_their_totals() -> None:
    part = explain_part(search(), "search")
    assert part.vpa is not None
    assert part.hpa is not None
    assert (part.vpa.owned, part.vpa.target, part.vpa.totals) == (
        True,
        {"cpu": "10", "memory": "5G"},
        {"cpu": "20", "memory": "10G"},
    )
    assert (part.hpa.owned, part.hpa.totals, part.hpa.since) == (True, {"cpu": "24"}, time(NOW - 90))
    assert (part.hpa.resources, part.hpa.metrics, part.hpa.max_replicas) == (("cpu",), ("Resource cpu",), 16)
    assert part.hpa.ratio == pytest.approx(9.6 / (0.8 * 5.5))
    assert (of(part, "cpu").by, of(part, "memory").by) == (("hpa",), ("vpa",))


def test_sources_of_the_user_are_distinguished_from_its_own() -> None:
    cluster = world(vpa={"deploy": False})
    cluster.add_vpa("theirs", {"app": {"cpu": "4", "memory": "3G"}}, mode="Off", target="web")
    part = explain_part(cluster)
    assert part.vpa is not None
    assert (part.vpa.name, part.vpa.owned, part.vpa.held) == ("theirs", False, ("cpu", "memory"))
    assert part.vpa.totals == {"cpu": "8", "memory": "6G"}


def test_a_held_total_is_the_decision_and_names_its_remedy() -> None:
    cluster = world(vpa={"deploy": False})
    cluster.add_vpa("theirs", {"app": {"cpu": "40", "memory": "5G"}}, mode="Off", target="web")
    published = {"containerRecommendations": [sized("app", "6", "5G")]}
    cluster.objects["Hvpa", (NAMESPACE, "web")]["status"] = {"recommendation": published}
    part = explain_part(cluster)
    assert code(part) == "NoTotals"
    assert part.details.startswith("CPU is held at 12 in total, and the VPA recommends 40 for each pod")
    (line,) = [source_line for source_line in source_lines(part, time(NOW)) if "published" in source_line]
    assert line == "  No total of CPU and memory is published: it stays at target times replicas of the first pass."


def test_a_total_that_is_scaled_by_another_recommender_names_it() -> None:
    cluster = world(vpa={"deploy": False}, status={"totals": {"cpu": "24", "memory": "6G"}})
    named = {"recommenders": [{"name": "night-shift"}]}
    cluster.add_vpa("theirs", {"app": {"cpu": "12", "memory": "3G"}}, mode="Off", target="web", **named)
    part = explain_part(cluster)
    assert part.vpa is not None
    assert (part.vpa.scaled_by, part.vpa.held, part.vpa.totals["cpu"]) == ("night-shift", (), "24")
    lines = list(source_lines(part, time(NOW)))
    assert "  The total is the usage history of the workload, scaled by the target of recommender night-shift." in lines


def test_a_count_on_the_scale_without_an_hpa_is_reported_with_its_writer() -> None:
    condition = {
        "type": "ScaleRequested",
        "status": "True",
        "reason": "ScaleRequested",
        "message": "kubectl asks for 4 replicas",
    }
    demand = {"total": {"cpu": "24"}, "time": time(NOW - 60)}
    cluster = world(total={"cpu": "12", "memory": "6G"}, replicas=2, status={"hpa": demand, "conditions": [condition]})
    part = explain_part(cluster)
    assert part.scale_request is not None
    assert (part.scale_request.totals, part.scale_request.since) == ({"cpu": "24"}, time(NOW - 60))
    assert of(part, "cpu").by == ("hpa",)
    lines = list(source_lines(part, time(NOW)))
    assert "A count written to its scale subresource asks for CPU 24 in total, since 07:59 UTC, 1 min ago." in lines
    assert "  kubectl asks for 4 replicas" in lines


def test_a_count_that_the_controller_has_not_observed_yet_is_reported() -> None:
    cluster = world(total={"cpu": "12", "memory": "6G"})
    cluster.objects["Hvpa", (NAMESPACE, "web")]["spec"]["replicas"] = 4
    lines = list(source_lines(explain_part(cluster), time(NOW)))
    assert "spec.replicas is 4, which the Hvpa controller has not processed yet." in lines


def test_without_any_source_the_reason_is_no_recommendation() -> None:
    part = explain_part(world())
    assert (code(part), part.hpa, part.vpa, part.demands) == ("NoRecommendation", None, None, ())


# Count and size


def test_the_count_is_reported_with_the_edges_that_decide_it() -> None:
    part = explain_part(search(), "search")
    cpu, memory = of(part, "cpu"), of(part, "memory")
    assert (part.replicas, part.count, part.size) == (2, 3, {"cpu": "8", "memory": "5G"})
    assert (cpu.requested, cpu.total, cpu.count, cpu.above, cpu.up_to) == ("24", "24", 3, "12", "27")
    assert (memory.requested, memory.count, memory.above, memory.up_to) == ("10G", 2, "3562500k", "13250M")
    assert [capacity.count for capacity in part.capacities["cpu"]] == list(range(1, 9))
    assert [capacity.total for capacity in part.capacities["cpu"]] == ["3", "12", "27", "48", "75", "108", "147", "192"]


@pytest.mark.req("HV-44")
def test_the_totals_of_the_next_counts_are_reported_in_both_directions() -> None:
    part = explain_part(search(), "search")
    assert part.count_changes == (
        CountChangePart(4, upwards=True, totals={"cpu": "27", "memory": "29062500k"}),
        CountChangePart(2, upwards=False, totals={"cpu": "10800m", "memory": "11925M"}),
    )


def test_a_count_that_the_overlap_keeps_is_reported_with_its_edge() -> None:
    part = explain_part(world(3, "3700m", "3G", {"cpu": "11", "memory": "8G"}, scaleDown={"stabilizationWindow": "0s"}))
    cpu, memory = of(part, "cpu"), of(part, "memory")
    assert (part.count, cpu.count, cpu.kept_above, cpu.keeps) == (3, 2, "10800m", True)
    assert (memory.count, memory.keeps) == (2, False)


def test_a_count_in_no_bucket_has_no_overlap_that_could_keep_it() -> None:
    part = explain_part(world(12, total={"cpu": "100", "memory": "30G"}, scaleDown={"updateMode": "Off"}))
    assert (part.count, of(part, "cpu").kept_above, of(part, "cpu").keeps) == (12, "", False)


def test_the_size_is_reported_with_its_share_its_target_and_its_bounds() -> None:
    cpu, memory = of(explain_part(search(), "search"), "cpu"), of(explain_part(search(), "search"), "memory")
    assert (cpu.sizing, cpu.share, cpu.target, cpu.least, cpu.most, cpu.size) == ("Share", "8", "10", "0", "9", "8")
    assert (memory.sizing, memory.share, memory.target) == ("AtLeastRecommended", "3333333334", "5G")
    assert (memory.least, memory.most, memory.size) == ("500M", "9687500k", "5G")


@pytest.mark.req("HV-25")
def test_the_size_is_split_over_the_containers_that_are_scaled() -> None:
    cluster = search()
    parts = {container.container: container for container in explain_part(cluster, "search").containers}
    assert parts["app"].planned == {"cpu": "7200m", "memory": "4G"}
    assert parts["proxy"].planned == {"cpu": "800m", "memory": "1G"}
    assert parts["app"].published == {"cpu": "5", "memory": "4G"}
    policy = {"containerPolicies": [{"containerName": "proxy", "mode": "Off"}]}
    cluster.objects["Hvpa", (NAMESPACE, "search")]["spec"]["vpa"]["template"] = {"spec": {"resourcePolicy": policy}}
    parts = {container.container: container for container in explain_part(cluster, "search").containers}
    assert (parts["proxy"].scaled, parts["proxy"].planned) == (False, {})


def test_more_than_the_last_bucket_allows_is_limited() -> None:
    part = explain_part(world(2, total={"cpu": "200", "memory": "10G"}))
    assert (of(part, "cpu").limited, of(part, "memory").limited) == (True, False)
    assert "Limited" in {note.code for note in part.notes}
    assert not [turn for turn in part.count_changes if turn.upwards]


def test_of_many_counts_those_around_the_present_one_are_reported() -> None:
    bucket = {"replicas": {"min": 1, "max": 1_000_000}, "cpu": {"min": "1", "max": "1"}, "memory": {"min": 1, "max": 1}}
    part = explain_part(world(500, "1", "1", {"cpu": "520", "memory": "1"}, buckets=[bucket]))
    shown = [capacity.count for capacity in part.capacities["cpu"]]
    assert len(shown) == 32
    assert {500, 520} <= set(shown)


# What holds back


@pytest.mark.parametrize(
    ("spec", "direction", "reason", "until"),
    [
        ({"scaleUp": {"updateMode": "Off"}}, "Up", "UpdatePolicy", ""),
        (
            {"scaleUp": {"updateMode": "MaintenanceWindow"}, "maintenanceWindow": WINDOW},
            "Up",
            "MaintenanceWindow",
            "2027-01-15T22:00:00Z",
        ),
        ({"scaleUp": {"stabilizationWindow": "3m"}}, "Up", "StabilizationWindow", time(NOW + 180)),
    ],
)
def test_a_step_that_is_held_back_is_reported_with_its_reason_and_its_end(
    spec: Document, direction: str, reason: str, until: str
) -> None:
    part = explain_part(world(2, total={"cpu": "24", "memory": "10G"}, **spec))
    assert part.count == 2
    assert (direction, reason, until) in [(step.direction, step.reason.code, step.until) for step in part.blocked]


def test_scale_down_waits_for_a_window_that_begins_now() -> None:
    part = explain_part(world(3, "8", total={"cpu": "5", "memory": "10G"}))
    (held,) = part.blocked
    assert (held.direction, held.reason.code, held.until) == ("Down", "StabilizationWindow", time(NOW + 300))
    assert (of(part, "cpu").requested, of(part, "cpu").total) == ("5", "24")


def test_steps_that_the_controller_holds_back_are_reported_as_in_its_status() -> None:
    blocked = [{"direction": "Down", "reason": "MinChange", "message": "not worth it"}]
    part = explain_part(world(status={"blocked": blocked}))
    assert [step["reason"] for step in part.stored_blocked] == ["MinChange"]


def test_a_wish_is_reported_and_not_read() -> None:
    part = explain_part(search(), "search")
    assert (part.wish, part.replicas) == (4, 2)
    assert "HpaDemandNotRead" not in {note.code for note in part.notes}


# What is left alone


def test_the_autoscaler_it_yields_to_is_named() -> None:
    cluster = world(total={"cpu": "24", "memory": "10G"})
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}
    cluster.put("HorizontalPodAutoscaler", "direct", {"spec": spec})
    cluster.put("HorizontalPodAutoscaler", "other", {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "db"}}})
    part = explain_part(cluster)
    assert (part.yields and part.yields.code, part.rivals) == ("ConflictingHPA", ("HorizontalPodAutoscaler direct",))
    cluster.add_vpa("acting", target="web")
    assert "VerticalPodAutoscaler acting" in explain_part(cluster).rivals
    cluster.add_hvpa("elder", target="web")
    cluster.objects["Hvpa", (NAMESPACE, "elder")]["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    part = explain_part(cluster)
    assert (part.yields and part.yields.code, part.rivals[0]) == ("OlderHvpa", "Hvpa elder")


def test_a_target_at_zero_is_left_there() -> None:
    part = explain_part(world(0, total={"cpu": "24", "memory": "10G"}))
    assert (code(part), part.replicas, part.demands) == ("ScaledToZero", 0, ())


def test_a_stored_hvpa_that_breaks_a_rule_is_reported_with_the_rule() -> None:
    part = explain_part(world(buckets=[{**STORY_1, "replicas": {"min": 3, "max": 1}}]))
    assert (part.problem and part.problem.code, part.verdict) == ("HvpaRefused", None)
    assert "must not be below min" in part.problem_details


def test_a_target_that_does_not_exist_is_reported() -> None:
    part = explain_part(world(target="nope"))
    assert part.problem is not None
    assert (part.problem.code, part.verdict) == ("TargetNotFound", None)


# Around it


def test_the_count_of_an_unknown_kind_is_the_one_that_the_status_mirrors() -> None:
    total = {"cpu": "24", "memory": "10G"}
    cluster = world(total=total, targetRef={"apiVersion": "argoproj.io/v1", "kind": "Rollout", "name": "web"})
    cluster.objects["VerticalPodAutoscaler", (NAMESPACE, "web")]["spec"]["targetRef"]["kind"] = "Rollout"
    assert (explain_part(cluster).problem or missing_evidence.USAGE_NOT_OBSERVED).code == "TargetUnreachable"
    cluster.scales = [DumpedScale(TargetRef(NAMESPACE, "argoproj.io/v1", "Rollout", "web"), ScaleInfo("app=web"))]
    assert (explain_part(cluster).replicas, explain_part(cluster).pods) == (2, 2)
    cluster.objects["Hvpa", (NAMESPACE, "web")]["status"] = {"replicas": 5}
    assert (explain_part(cluster).replicas, explain_part(cluster).pods) == (5, 2)


def test_a_boost_is_no_request() -> None:
    cluster = Cluster()
    annotations = {BOOST: '{"requests":{"cpu":"6","memory":"5G"}}'}
    cluster.add_workload("web", 2, container(cpu="18", memory="5G"), annotations=annotations)
    cluster.add_hvpa("web")
    cluster.add_hvpa_vpa("web", {"app": {"cpu": "6", "memory": "5G"}}, {"app": {"cpu": "12", "memory": "10G"}})
    part = explain_part(cluster)
    assert part.containers[0].requests == {"cpu": "6", "memory": "5G"}
    assert part.count == 2


def test_an_out_of_memory_kill_ends_the_waiting() -> None:
    cluster = world(2, "6", "5G", {"cpu": "12", "memory": "12G"}, scaleUp={"stabilizationWindow": "10m"})
    assert of(explain_part(cluster), "memory").total == "10G"
    pod = cluster.objects["Pod", (NAMESPACE, "web-1-0")]
    cluster.put("Pod", "web-1-0", killed(pod, 30.0))
    part = explain_part(cluster)
    assert of(part, "memory").total == "12G"
    assert "OomOverridesWindow" in {note.code for note in part.notes}


def test_pods_that_do_not_have_the_size_yet_are_reported_with_their_verdicts() -> None:
    pods = {pod.name: pod for pod in explain_hvpa(search().evidence(), "search").pods}
    assert {pod.by for pod in pods.values()} == {"Hvpa search"}
    assert (pods["search-1-0"].reason.code, pods["search-1-1"].way) == ("SizeAsRecommended", "Resize")
    assert pods["search-1-1"].containers[0].targets["cpu"] == "5"


def test_a_pod_and_a_vpa_say_which_hvpa_decides() -> None:
    evidence = search().evidence()
    for explained in (explain_pod(evidence, "search-1-0"), explain_vpa(evidence, "search")):
        assert explained.hvpa is not None
        assert (explained.hvpa.name, explained.hvpa.count) == ("search", 3)


def test_a_pod_of_an_hvpa_that_yields_is_the_vpas() -> None:
    cluster = world(total={"cpu": "24", "memory": "10G"})
    cluster.add_vpa("web", {"app": {"cpu": "4", "memory": "3G"}})
    assert explain_pod(cluster.evidence(), "web-1-0").hvpa is None


def test_events_about_the_hvpa_belong_to_the_answer() -> None:
    explained = explain_hvpa(search().evidence(), "search")
    assert [(event.about, event.reason) for event in explained.events] == [("Hvpa search", "ScalesUp")]


def test_state_that_only_the_controller_has_is_named() -> None:
    explained = explain_hvpa(search().evidence(), "search")
    assert "ScalingNotObserved" in {missing.reason.code for missing in explained.missing}
    assert not explained.partial


def test_an_unknown_hvpa_gets_a_suggestion() -> None:
    with pytest.raises(InvalidInput, match=r'no Hvpa of that name in namespace shop \(did you mean "search"'):
        explain_hvpa(search().evidence(), "serch")


# For any of them


@st.composite
def worlds(draw: st.DrawFn) -> Cluster:
    """Some buckets, pods that have anything, and sources that say anything."""
    cluster = Cluster()
    cpu, memory = draw(st.integers(0, 6000)), draw(st.integers(0, 6000))
    cluster.add_workload("web", draw(st.integers(0, 8)), container(cpu=f"{cpu}m", memory=str(memory)))
    status: Document = {}
    if draw(st.booleans()):
        status["recommendation"] = {"containerRecommendations": [sized("app", f"{cpu}m", str(memory))]}
    cluster.add_hvpa("web", buckets=draw(buckets()), status=status, **draw(policies()))
    if draw(st.integers(0, 4)):
        requests = {"cpu": f"{draw(st.integers(0, 6000))}m", "memory": str(draw(st.integers(0, 6000)))}
        total = {"cpu": f"{draw(st.integers(0, 6000))}m", "memory": str(draw(st.integers(0, 6000)))}
        cluster.add_hvpa_vpa("web", {"app": requests}, draw(st.sampled_from([None, {"app": total}])))
    if draw(st.booleans()):
        cluster.add_hvpa_hpa("web", used=f"{draw(st.integers(1, 6000))}m")
    return cluster


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_the_verdict_the_count_and_the_size_are_those_of_the_plan(cluster: Cluster) -> None:
    evidence = cluster.evidence()
    part, made = hvpa_part(explain_hvpa(evidence, "web")), evidence.hvpas["web"].plan
    assert made is not None
    assert (part.verdict, part.details, part.count) == (made.summary.reason, made.summary.details, made.shape.count)
    assert parse_amounts(part.size) == made.shape.size
    assert {
        container.container: parse_amounts(container.planned) for container in part.containers if container.planned
    } == {name: amounts for name, amounts in made.containers.items() if amounts}
    assert [(step.direction, step.reason) for step in part.blocked] == [
        (step.direction.value, step.reason) for step in made.summary.blocked
    ]


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_every_code_and_figure_comes_from_the_core(cluster: Cluster) -> None:
    evidence = cluster.evidence()
    known = _collect_known_atoms(evidence, evidence.hvpas["web"])
    own = {var.code for var in vars(missing_evidence).values() if hasattr(var, "code")}
    atoms = Atoms()
    atoms.add(hvpa_part(explain_hvpa(evidence, "web")))
    assert atoms.codes <= known.codes | own
    assert not {number for number in atoms.numbers if number not in known.numbers}


@given(worlds())
@settings(max_examples=25, deadline=None)
def test_a_count_change_is_at_the_total_where_the_count_changes(cluster: Cluster) -> None:
    evidence = cluster.evidence()
    part, view = hvpa_part(explain_hvpa(evidence, "web")), evidence.hvpas["web"].view
    assert view is not None
    ladders, overlap = view.meaning.ladders, view.meaning.hvpa.down.overlap_percent
    for turn in part.count_changes:
        edges = parse_amounts(turn.totals)
        if turn.upwards:
            for name, edge in edges.items():
                assert find_desired_count(ladders, {name: edge}) <= part.count < turn.count
                assert find_desired_count(ladders, {name: edge + 1}) == turn.count
        else:
            assert find_next_count(ladders, edges, part.count, overlap) == turn.count < part.count
            for name, edge in edges.items():
                assert find_next_count(ladders, {**edges, name: edge + 1}, part.count, overlap) == part.count


def hvpa_part(explained: ObjectExplanation) -> HvpaPart:
    assert explained.hvpa is not None
    return explained.hvpa


def _collect_known_atoms(evidence: Evidence, scaled: HvpaEvidence) -> Atoms:
    """What was decided and what it was decided by, edges of counts included."""
    view, made = scaled.view, scaled.plan
    assert view is not None
    assert made is not None
    atoms = Atoms()
    atoms.add([made, view, evidence.now, scaled.hvpa, scaled.related.hpas, scaled.related.vpas])
    ladders, overlap = view.meaning.ladders, view.meaning.hvpa.down.overlap_percent
    for name in RESOURCES:
        ladder = ladders.by_resource[name]
        for count in (replicas for first, last in ladders.ranges for replicas in range(first, last + 1)):
            held = (ladder.capacity_at(count), ladder.minimum_at(count), ladder.maximum_at(count))
            atoms.add([count, *held, int((100 - overlap) * ladder.exact_capacity_at(count) / 100)])
        atoms.add(-(-made.totals.get(name, 0) // max(made.shape.count, 1)))
        atoms.add([made.shape.totals.get(name, 0), view.replicas * 10**9])
        atoms.add([amount * view.replicas for amount in _amounts(msgspec.to_builtins(view.containers), name)])
    if view.hpa is not None and view.hpa.ratio is not None:
        atoms.add(float(view.hpa.ratio))
    for policy in (view.meaning.hvpa.up, view.meaning.hvpa.down):
        atoms.add(evidence.now + policy.stabilization.total_seconds())
    atoms.add(
        [
            True,
            False,
            find_next_window_change(view.meaning.hvpa, evidence.now),
            time(made.requeue_at) if made.requeue_at is not None else 0,
        ]
    )
    # An amount is written in another unit than it is counted in, and a text is read in both.
    atoms.numbers |= {1000 * number for number in atoms.numbers}
    atoms.numbers |= {float(Quantity.from_milli(int(number)).units) for number in atoms.numbers if abs(number) < 1e15}
    return atoms


def _amounts(containers: list[Document], name: str) -> list[int]:
    fields = ("requests", "published", "target", "min_requests")
    return [container[field][name] for container in containers for field in fields if name in container[field]]
