"""Several recommenders in one cluster: each serves the VPAs that name it, and changes nothing else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from support.cluster.recommenders import (
    EVERY_SECOND,
    MIB,
    cpu_at,
    find_true_condition,
    history,
    memory_at,
    steady_memory,
    true_conditions,
    wait_for_passes,
)
from support.cluster.vpas import (
    USAGE_SECONDS,
    checkpoint_path,
    count_samples,
    get_checkpoint_status,
    get_container_recommendations,
    get_memory_target,
    get_target,
    get_vpa_status,
    metric_value,
    vpa,
    vpa_path,
)
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.errors import Refused
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import deployment

Start = Callable[..., Controller]

# A recommender with settings of its own. Where usage was in one bucket, only the margin shows.
FRUGAL = ("--recommender-name=frugal", "--target-cpu-percentile=0.5", "--recommendation-margin-fraction=0")
COUNT = "vpa_recommender_vpa_objects_count"
LONG = 1000  # samples
# Weights of buckets: the median of CPU is in one bucket, nine tenths are only reached in another.
CPU, MEMORY = {20: 6000, 40: 4000}, {30: 10_000}
# A status that another recommender has left behind.
OLD = {
    "recommendation": {
        "containerRecommendations": [{"containerName": "app", "target": {"cpu": "7m", "memory": "7Mi"}}]
    },
    "conditions": [
        {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2020-02-02T02:02:02Z"},
    ],
}
BY_DEFAULT = (cpu_at(40), memory_at(30))
BY_FRUGAL = (cpu_at(20, margin=0), memory_at(30, margin=0))


def create(cluster: Cluster, namespace: str, name: str, labels: Mapping[str, str] | None = None, **more: Any) -> None:
    """A Deployment, its VPA and an hour of history."""
    cluster.api.create(deployment(name), namespace)
    cluster.api.create(history(name, CPU, MEMORY), namespace)
    manifest = vpa(name, **more)
    manifest["metadata"]["labels"] = labels or {}
    cluster.api.create(manifest, namespace)


def everything_of(cluster: Cluster, namespace: str, names: Sequence[str]) -> list[Json | None]:
    """VPAs and their checkpoints, whole; a version that has not moved means that nobody has written."""
    paths = [path for name in names for path in (vpa_path(namespace, name), checkpoint_path(namespace, f"{name}-app"))]
    return [cluster.api.find(path) for path in paths]


@pytest.mark.req("CR-01", "CR-02", "CR-10", "CR-12", "CR-14", "CR-16", "CR-17", "CR-18", "CR-19", "CR-28", "CR-29")
def test_each_recommender_serves_its_vpas_and_changes_no_other(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    api = cluster.api
    create(cluster, namespace, "absent")
    create(cluster, namespace, "empty", recommenders=[])
    create(cluster, namespace, "named", recommender="default")
    create(cluster, namespace, "labelled", {"recommender": "frugal"})
    create(cluster, namespace, "frugal", {"recommender": "default"}, recommender="frugal")
    api.create(vpa("younger", target="frugal"), namespace)
    create(cluster, namespace, "nobody", recommender="nobody-runs-this")
    for name in ("absent", "nobody"):
        # As it was stored before the field existed, or while somebody ran who no longer does.
        api.patch(f"{vpa_path(namespace, name)}/status", {"status": OLD})
    api.create(history("gone", CPU, MEMORY), namespace)
    unserved = everything_of(cluster, namespace, ["nobody"])
    by_default, by_frugal = ["absent", "empty", "named", "labelled"], ["frugal"]

    first = recommender(namespace, EVERY_SECOND, "--checkpoints-gc-interval=1s")
    second = recommender(namespace, EVERY_SECOND, *FRUGAL)

    def targets(names: list[str]) -> set[tuple[int, int] | None]:
        return {get_target(cluster, namespace, name) for name in names}

    until("recommendations of the first", lambda: targets(by_default) == {BY_DEFAULT})
    until("recommendations of the second", lambda: targets(by_frugal) == {BY_FRUGAL})
    until("the first to count its own", lambda: metric_value(first, COUNT) == len(by_default) + 1)
    until("the second to count its own", lambda: metric_value(second, COUNT) == len(by_frugal))
    # No pod has two recommenders, whatever they are called.
    conflict = until("the conflict", lambda: find_true_condition(cluster, namespace, "younger", "ConflictingVPA"))
    assert conflict["message"].endswith(": frugal")
    assert not get_container_recommendations(cluster, namespace, "younger")
    # That of a VPA which is gone is removed; that of a VPA which nobody serves is not.
    until("garbage to be removed", lambda: not api.find(checkpoint_path(namespace, "gone-app")))
    wait_for_passes(first, second)
    assert everything_of(cluster, namespace, ["nobody"]) == unserved

    # None stands in for another.
    second.process.stop()
    remaining = everything_of(cluster, namespace, by_frugal)
    wait_for_passes(first)
    assert everything_of(cluster, namespace, by_frugal) == remaining
    second = recommender(namespace, EVERY_SECOND, *FRUGAL)
    first.process.stop()
    remaining = everything_of(cluster, namespace, [*by_default, "younger"])
    wait_for_passes(second)
    assert everything_of(cluster, namespace, [*by_default, "younger"]) == remaining
    assert everything_of(cluster, namespace, ["nobody"]) == unserved


@pytest.mark.req("CR-04", "CR-05")
@pytest.mark.parametrize("names", [("default", "frugal"), ("frugal", "frugal"), ("a", "b", "c")])
def test_more_than_one_recommender_is_refused_on_create_and_on_update(
    cluster: Cluster, namespace: str, names: tuple[str, ...]
) -> None:
    several = [{"name": name} for name in names]
    result = rf"spec\.recommenders: Too many: {len(names)}: must have at most 1 item"
    with pytest.raises(Refused, match=result) as refused:
        cluster.api.create(vpa("web", recommenders=several), namespace)
    assert refused.value.reason == "Invalid"
    assert cluster.api.find(vpa_path(namespace, "web")) is None
    for entry in (None, ""):
        nameless = [{} if entry is None else {"name": entry}]
        with pytest.raises(Refused, match=r"spec\.recommenders\[0\]\.name"):
            cluster.api.create(vpa("web", recommenders=nameless), namespace)
    before = cluster.api.create(vpa("web", recommenders=several[:1]), namespace)
    with pytest.raises(Refused, match=result):
        cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"recommenders": several}})
    assert cluster.api.get(vpa_path(namespace, "web"))["spec"] == before["spec"]


@pytest.mark.req("CR-13")
def test_a_vpa_moves_between_recommenders_and_back_with_its_history(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    api = cluster.api
    # It uses what it has always used, so that the recommendation says by whom it is, and the count what it is made of.
    usage = {ask.USAGE_CPU: "200m", ask.USAGE_MEMORY: "300Mi"}
    api.create(deployment("web", annotations=usage), namespace)
    api.create(history("web", {13: 10_000}, {19: 10_000}, samples=LONG), namespace)
    api.create(vpa("web"), namespace)
    begun = get_checkpoint_status(cluster, namespace, "web-app")["firstSampleStart"]
    first = recommender(namespace, EVERY_SECOND)
    second = recommender(namespace, EVERY_SECOND, *FRUGAL)

    def served(margin: float, served: tuple[int, int]) -> bool:
        recommended = get_memory_target(cluster, namespace, "web") == steady_memory(300 * MIB, margin)
        return recommended and (metric_value(first, COUNT), metric_value(second, COUNT)) == served

    def counted(more_than: int) -> int | None:
        samples = count_samples(cluster, namespace, "web-app")
        return samples if samples > more_than else None

    until("the first to recommend", lambda: served(0.15, (1, 0)))
    before = until("a sample for the first", lambda: counted(LONG), USAGE_SECONDS)

    api.patch(vpa_path(namespace, "web"), {"spec": {"recommenders": [{"name": "frugal"}]}})
    until("the second to recommend", lambda: served(0, (0, 1)))
    meanwhile = until("a sample for the second", lambda: counted(before))

    api.patch(vpa_path(namespace, "web"), {"spec": {"recommenders": None}})
    until("the first to recommend again", lambda: served(0.15, (1, 0)))
    # Nothing is lost, and nothing that both have seen counts twice.
    assert until("a sample for the first again", lambda: counted(meanwhile)) < meanwhile + LONG // 2
    assert get_checkpoint_status(cluster, namespace, "web-app")["firstSampleStart"] == begun
    for controller in (first, second):
        controller.process.check()


@pytest.mark.req("CR-07")
def test_a_bad_parameter_is_reported_for_its_vpa_alone_and_a_valid_one_is_applied(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    def chosen(**parameters: str) -> Json:
        dashed = {name.replace("_", "-"): text for name, text in parameters.items()}
        return {"recommenders": [{"name": "default", "parameters": dashed}]}

    create(cluster, namespace, "plain")
    create(cluster, namespace, "tuned", **chosen(target_cpu_percentile="0.5"))
    create(cluster, namespace, "wrong", **chosen(target_cpu_percentile="5", colour="blue"))
    running = recommender(namespace, EVERY_SECOND)

    def targets() -> dict[str, tuple[int, int] | None]:
        return {name: get_target(cluster, namespace, name) for name in ("plain", "tuned", "wrong")}

    tuned = (cpu_at(20), memory_at(30))
    until("recommendations", lambda: targets() == {"plain": BY_DEFAULT, "tuned": tuned, "wrong": None})
    result = until("what is wrong", lambda: find_true_condition(cluster, namespace, "wrong", "ConfigUnsupported"))
    assert result["reason"] == "BadParameters"
    assert (
        'spec.recommenders[0].parameters[target-cpu-percentile]: Invalid value: "5": must be at most 1'
        in result["message"]
    )
    assert "parameters[colour]" in result["message"]
    assert {"ConfigUnsupported"} & true_conditions(cluster, namespace, "plain") == set()
    until("it to be counted", lambda: metric_value(running, COUNT, unsupported_config="true") == 1)

    # What was good goes bad: its last recommendation stays, and the others go on.
    edited = cluster.api.patch(vpa_path(namespace, "tuned"), {"spec": chosen(target_cpu_percentile="half")})
    until("the edit to be told", lambda: find_true_condition(cluster, namespace, "tuned", "ConfigUnsupported"))
    assert get_vpa_status(cluster, namespace, "tuned")["observedGeneration"] == edited["metadata"]["generation"]
    cluster.api.patch(vpa_path(namespace, "plain"), {"spec": chosen(recommendation_margin_fraction="0")})
    plain = (cpu_at(40, margin=0), memory_at(30, margin=0))
    until("the others to go on", lambda: targets() == {"plain": plain, "tuned": tuned, "wrong": None})

    for name in ("tuned", "wrong"):
        cluster.api.patch(vpa_path(namespace, name), {"spec": chosen(target_cpu_percentile="0.9")})
    until("both to be served", lambda: targets() == {"plain": plain, "tuned": BY_DEFAULT, "wrong": BY_DEFAULT})
    for name in ("tuned", "wrong"):
        assert "ConfigUnsupported" not in true_conditions(cluster, namespace, name)
    assert get_container_recommendations(cluster, namespace, "wrong").keys() == {"app"}
    assert "pass failed" not in running.read_logs()


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
QUICK = (
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
)


@pytest.fixture
def frugal_lease(cluster: Cluster) -> Iterator[None]:
    """The right to a second lease, which the manifest says is to be added for each further name."""
    name = {"name": f"frugal-lease-{secrets.token_hex(4)}", "namespace": "kube-system"}
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "patch"]}
    rules = [{**rule, "resourceNames": ["vpa-recommender-lease-frugal"]}]
    subject = {"kind": "ServiceAccount", "name": "vpa-recommender", "namespace": "kube-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name["name"]}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": name}
    cluster.api.create({**head, "kind": "Role", "rules": rules})
    cluster.api.create({**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]})
    until("RBAC to know the role", lambda: _may_patch(cluster, "vpa-recommender-lease-frugal"))
    yield
    for kind in ("rolebindings", "roles"):
        cluster.api.delete(f"{RBAC}/{kind}/{name['name']}")
    for lease in ("vpa-recommender-lease", "vpa-recommender-lease-frugal"):
        if cluster.api.find(f"{LEASES}/{lease}"):
            cluster.api.delete(f"{LEASES}/{lease}")


def _may_patch(cluster: Cluster, lease: str) -> bool:
    resource = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "kube-system", "name": lease}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:kube-system:vpa-recommender",
            "resourceAttributes": {**resource, "verb": "patch"},
        },
    }
    allowed: bool = cluster.api.create(review)["status"]["allowed"]
    return allowed


@pytest.mark.req("CR-08")
def test_each_name_has_a_lease_and_a_replica_takes_over_those_of_a_dead_one(
    cluster: Cluster, namespace: str, frugal_lease: None, recommender: Start
) -> None:
    # Without targets there is something to say of them at once.
    cluster.api.create(vpa("usual"), namespace)
    cluster.api.create(vpa("thrifty", recommender="frugal"), namespace)

    def holder(lease: str) -> str:
        result = cluster.api.find(f"{LEASES}/{lease}")
        return result["spec"].get("holderIdentity", "") if result else ""

    def asked(controller: Controller, name: str) -> tuple[int, str]:
        return controller.get(f"/recommendations/{namespace}/{name}")

    def observed(name: str) -> int:
        return int(get_vpa_status(cluster, namespace, name).get("observedGeneration", 0))

    first = recommender(namespace, EVERY_SECOND, *QUICK)
    dead = until("the first to lead", lambda: holder("vpa-recommender-lease") or None)
    second = recommender(namespace, EVERY_SECOND, *QUICK, "--recommender-name=default,frugal")
    alive = until("the second to lead", lambda: holder("vpa-recommender-lease-frugal") or None)
    until("both to be served", lambda: (observed("usual"), observed("thrifty")) == (1, 1))
    assert alive != dead == holder("vpa-recommender-lease")
    until("each to count its own", lambda: (metric_value(first, COUNT), metric_value(second, COUNT)) == (1, 1))
    until("the other to be named", lambda: json.loads(asked(second, "usual")[1]).get("elsewhere") == {"default": dead})
    status, text = asked(second, "usual")
    assert status == 404
    assert f"this process serves frugal (the leader of default is {dead})" in text
    until("its own to be told of", lambda: asked(second, "thrifty")[0] == 200)

    first.process.kill()
    for name in ("usual", "thrifty"):
        cluster.api.patch(vpa_path(namespace, name), {"spec": {"updatePolicy": {"updateMode": "Off"}}})
    until("the other name to be served all the time", lambda: observed("thrifty") == 2)
    until("the second to take over", lambda: holder("vpa-recommender-lease") == alive)
    until("its VPA to be served", lambda: observed("usual") == 2)
    until("both to be counted", lambda: metric_value(second, COUNT) == 2)
    assert holder("vpa-recommender-lease-frugal") == alive
