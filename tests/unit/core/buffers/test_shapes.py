"""The shape of one chunk."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.builders.manifests import buffer, replica_buffer
from support.builders.pods import limit_ranges
from support.worlds.buffers import a_pod, a_spec, a_template, a_vpa, an_hvpa, app, requests_of, target_facts, translated
from trellis.api.kube.pods import PodSpec
from trellis.core.buffers import TargetFacts, TranslationFacts, find_newest_live
from trellis.core.buffers.shapes import (
    HAS_RESOURCE_CLAIMS,
    POD_SPEC_UNREADABLE,
    TARGET_WITHOUT_PODS,
    TEMPLATE_REFUSED,
    VOLUMES_DROPPED,
)
from trellis.core.fit import Demand

TWO = replica_buffer(exactly=2)
AWAY = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]


def pod_spec_buffer(spec: Any) -> dict[str, Any]:
    return buffer(capacity={"pods": {"replicaNum": 1, "podSpec": spec}})


def created(name: str, minute: int, **fields: Any) -> Any:
    document = a_pod(name=name, creationTimestamp=f"2026-11-18T11:{minute:02}:00Z", **fields.pop("metadata", {}))
    return msgspec.structs.replace(document, status=msgspec.structs.replace(document.status, **fields))


@pytest.mark.req("BF-12")
def test_the_newest_live_pod_is_the_shape() -> None:
    pods = [
        created("old", 1, phase="Running"),
        created("new", 5, phase="Pending"),
        created("failed", 6, phase="Failed"),
        created("done", 7, phase="Succeeded"),
        created("leaving", 8, phase="Running", metadata={"deletionTimestamp": "2026-11-18T11:59:00Z"}),
    ]
    newest = find_newest_live(pods)
    assert newest is not None
    assert newest.metadata.name == "new"
    assert find_newest_live(pods[2:]) is None


@pytest.mark.req("BF-12")
def test_a_live_pod_comes_before_the_template() -> None:
    live = a_pod(a_spec(app(cpu="700m")))
    made = translated(TWO, target_facts(pod=live, template=a_template()))
    assert requests_of(made) == {"cpu": "700m"}


@pytest.mark.req("BF-13")
def test_without_a_live_pod_the_template_is_the_shape() -> None:
    made = translated(TWO, target_facts(pod=None, template=a_template()))
    assert requests_of(made) == {"cpu": "500m", "memory": "1Gi"}
    assert made.labels == {"app": "web"}


@pytest.mark.req("BF-13")
def test_without_pods_and_template_a_buffer_waits_for_the_first_pod() -> None:
    waiting = translated(TWO, TranslationFacts(TargetFacts(replicas=0)))
    assert (waiting.is_ready, waiting.ready.reason, waiting.chunks) == (False, TARGET_WITHOUT_PODS, 0)
    assert translated(TWO, target_facts()).is_ready


def test_a_refused_template_is_used_as_written_with_a_note() -> None:
    made = translated(TWO, target_facts(pod=None, template=a_template(), refusal="denied the request: no"))
    assert made.is_ready
    assert [note.reason for note in made.notes] == [TEMPLATE_REFUSED]
    assert str(made.notes[0]) == "denied the request: no"


@pytest.mark.req("BF-07")
def test_only_scheduling_fields_are_published() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    scheduling_fields = {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": AWAY}},
        "schedulerName": "default-scheduler",
        "priorityClassName": "high",
        "priority": 1000,
        "runtimeClassName": "vm",
        "overhead": {"cpu": "250m"},
        "topologySpreadConstraints": [spread],
    }
    dropped = {
        "nodeName": "node-7",
        "serviceAccountName": "web",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "imagePullSecrets": [{"name": "secret"}],
        "volumes": [{"name": "kube-api-access-x", "projected": {"sources": []}}],
        "schedulingGates": [{"name": "example.com/wait"}],
        "hostAliases": [{"ip": "10.0.0.1"}],
    }
    port = {"containerPort": 80, "hostPort": 8080}
    container = {**app(cpu="1", limits={"cpu": "2"}), "ports": [port, {"containerPort": 81}]}
    tolerations = [
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        *(
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ),
    ]
    made = translated(
        TWO, target_facts(spec=a_spec(container, **scheduling_fields, **dropped, tolerations=tolerations))
    )
    assert made.pod_spec == {
        "containers": [{"name": "app", "ports": [port], "resources": {"requests": {"cpu": "1"}}}],
        "tolerations": tolerations[:1],
        **scheduling_fields,
    }
    assert made.notes == ()


def test_the_labels_of_a_chunk_are_those_that_all_pods_share() -> None:
    per_pod_labels = {"statefulset.kubernetes.io/pod-name": "db-3", "apps.kubernetes.io/pod-index": "3"}
    # The API server copies these from the node that a pod is bound to.
    place = {"topology.kubernetes.io/zone": "zone-b", "topology.kubernetes.io/region": "region-1"}
    pod = a_pod(labels={"app": "db", "controller-revision-hash": "x", **per_pod_labels, **place})
    assert translated(TWO, target_facts(pod=pod)).labels == {"app": "db", "controller-revision-hash": "x"}


def test_volumes_with_claims_are_dropped_and_noted() -> None:
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
    ]
    made = translated(TWO, target_facts(spec=a_spec(volumes=volumes)))
    assert made.is_ready
    assert made.pod_spec is not None
    assert "volumes" not in made.pod_spec
    assert [note.reason for note in made.notes] == [VOLUMES_DROPPED]
    assert str(made.notes[0]) == "without volumes[1] (claim data-web-0), volumes[2] (ephemeral)"


@pytest.mark.req("BF-51")
@pytest.mark.parametrize(
    "spec",
    [
        a_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]),
        a_spec({"name": "app", "resources": {"claims": [{"name": "gpu"}]}}),
    ],
)
def test_a_pod_with_resource_claims_has_no_chunk(spec: Any) -> None:
    for made in (translated(TWO, target_facts(spec=spec)), translated(pod_spec_buffer(spec))):
        assert (made.is_ready, made.ready.reason, made.pod_spec) == (False, HAS_RESOURCE_CLAIMS, None)
        assert str(made.ready) == "capacity for resource claims is not supported: gpu"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": []},
        {"containers": "app"},
        {"containers": [{"name": ""}]},
        a_spec(initContainers=[{"image": "x"}]),
        a_spec(app(cpu="a lot")),
        a_spec(app(cpu="-1")),
        a_spec(overhead={"cpu": "x"}),
        a_spec(app(limits={"memory": "1Zi"})),
    ],
)
def test_an_unreadable_spec_is_refused_with_the_rule(spec: Any) -> None:
    made = translated(pod_spec_buffer(spec))
    assert (made.is_ready, made.ready.reason, made.pod_spec) == (False, POD_SPEC_UNREADABLE, None)
    assert made.ready.details


def test_a_limit_without_a_request_is_the_request() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}
    assert requests_of(translated(pod_spec_buffer(a_spec(app(cpu="1", limits=limits))))) == {**limits, "cpu": "1"}


def test_pod_level_requests_are_kept() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    own = {"limits": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "8Mi"}, "requests": {"memory": "512Mi"}}
    spec = a_spec(app(cpu="1", limits=pages), resources=own)
    made = translated(pod_spec_buffer(spec)).pod_spec
    assert made is not None
    assert made["resources"] == {"requests": {"memory": "512Mi", "hugepages-2Mi": "8Mi"}}
    assert Demand.of(msgspec.convert(made, PodSpec)) == Demand.of(msgspec.convert(spec, PodSpec))


def test_sidecars_and_host_network_ports_are_kept() -> None:
    sidecar = {**app("proxy", cpu="100m"), "restartPolicy": "Always"}
    container = {**app(cpu="1"), "restartPolicy": "Always", "ports": [{"containerPort": 80}]}
    spec = a_spec(container, initContainers=[sidecar, app("init", cpu="3")], hostNetwork=True)
    made = translated(pod_spec_buffer(spec)).pod_spec
    assert made is not None
    assert [init_container.get("restartPolicy") for init_container in made["initContainers"]] == ["Always", None]
    assert "restartPolicy" not in made["containers"][0]
    assert made["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80}]
    assert Demand.of(msgspec.convert(made, PodSpec)) == Demand.of(msgspec.convert(spec, PodSpec))


@pytest.mark.parametrize(
    "governor", [a_vpa({"cpu": "800m", "memory": "2Gi"}), an_hvpa({"cpu": "800m", "memory": "2Gi"})]
)
def test_a_chunk_is_as_big_as_the_recommendation_in_force(governor: Any) -> None:
    older = target_facts(governor=governor)
    assert requests_of(translated(TWO, older)) == {"cpu": "800m", "memory": "2Gi"}
    template = target_facts(pod=None, template=a_template(), governor=governor)
    assert requests_of(translated(TWO, template)) == {"cpu": "800m", "memory": "2Gi"}


def test_sidecars_get_the_recommendation_too() -> None:
    sidecar = {**app(cpu="100m", memory="1Gi"), "restartPolicy": "Always"}
    spec = a_spec(app("main", cpu="1"), initContainers=[app("init", cpu="1"), sidecar])
    made = translated(TWO, target_facts(spec=spec, governor=a_vpa({"cpu": "800m"}))).pod_spec
    assert made is not None
    assert made["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert [init_container["resources"]["requests"]["cpu"] for init_container in made["initContainers"]] == [
        "1",
        "800m",
    ]


def test_a_recommendation_is_capped_as_for_a_new_pod() -> None:
    governor = a_vpa({"cpu": "800m", "memory": "4Gi"})
    ranges = limit_ranges({"type": "Pod", "max": {"memory": "2Gi"}})
    assert requests_of(translated(TWO, target_facts(governor=governor, limits=ranges))) == {
        "cpu": "800m",
        "memory": "2Gi",
    }


def test_a_recommendation_that_is_not_applied_changes_nothing() -> None:
    boosts = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}}
    off = a_vpa({"cpu": "800m"}, updatePolicy={"updateMode": "Off"}, **boosts)
    assert requests_of(translated(TWO, target_facts(governor=off))) == {"cpu": "500m", "memory": "1Gi"}


def test_a_chunk_includes_the_startup_boost() -> None:
    governor = a_vpa({"cpu": "800m"})
    made = translated(TWO, target_facts(governor=governor, boosts={"app": 1600}))
    assert requests_of(made) == {"cpu": "1600m", "memory": "1Gi"}
    # A pod that is still boosted, of a workload whose pods no longer are, is not what the next one will be.
    boosted = target_facts(spec=a_spec(app(cpu="1600m")), governor=governor)
    assert requests_of(translated(TWO, boosted)) == {"cpu": "800m"}
