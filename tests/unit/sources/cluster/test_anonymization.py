"""The content of an anonymized dump."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.dumps import HASH, LABELS, SECRET, collect_dump, dump_state, hide, shop
from trellis.base.selectors import Selector, parse_selector
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.core.cluster.owners import ScaleInfo, TargetRef, build_controller_ref
from trellis.core.cluster.past_pods import build_pod_name_pattern
from trellis.core.cluster.store import BY_NAMESPACE, BY_NODE
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.sources.cluster.anonymization import Anonymizer
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.pseudonyms import Pseudonyms
from trellis.sources.cluster.redaction import Document, redact

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
# What the cluster's people have called things; each is a word of its own.
GIVEN = ("shop", "office", "web", "payments", "team", "alice", "incident", "ip-10-0-0", "alone", "confines")


def mask(secret: bytes = b"0") -> Anonymizer:
    return Anonymizer(secret)


def test_no_name_remains() -> None:
    dump = b"".join(collect_dump(shop(), mask=mask())).decode()
    for word in (*GIVEN, HASH, SECRET, "example.com", "registry.example", "web-vpa"):
        assert not re.search(rf"\b{re.escape(word)}\b", dump), word


def test_the_time_of_a_resize_is_retained_and_its_writer_is_not() -> None:
    server = shop()
    path = next(item for item in server.objects if "/pods/" in item)
    result = server.objects[path]
    entries = [
        {"manager": "bertha", "operation": "Update", "time": "2026-01-02T03:04:05Z", "subresource": subresource}
        for subresource in ("resize", "status")
    ]
    server.put(path, {**result, "metadata": {**result["metadata"], "managedFields": entries}})
    assert "bertha" not in b"".join(collect_dump(server)).decode()
    retained = [pod.metadata.managed_fields for pod in dump_state(server, mask=mask()).pods]
    assert [[item.subresource for item in entry] for entry in retained if entry] == [["resize"]]


def test_no_name_remains_in_reports_of_missing_data() -> None:
    server = shop()
    hide(server, "office")
    server.put("/api/v1/namespaces/shop/pods/odd", {"spec": {"containers": "none"}})
    dump = b"".join(collect_dump(server, "shop", "office", "shopp", mask=mask())).decode()
    assert '"why":"may not be read"' in dump
    assert '"why":"does not exist"' in dump
    for word in (*GIVEN, "odd", "shopp"):
        assert not re.search(rf"\b{re.escape(word)}\b", dump), word


def test_the_collector_reports_missing_data_in_full() -> None:
    server = shop()
    hide(server, "office")
    writing = DumpWriter(mask())
    collect_dump(server, writing=writing)
    assert "office" in {item.where for item in writing.missing}


def test_references_between_anonymized_objects_are_kept() -> None:
    plain, result = dump_state(shop()), dump_state(shop(), mask=mask())
    assert result.about.anonymous
    (vpa,) = result.vpas
    namespace = vpa.metadata.namespace
    target = TargetRef(namespace, "apps/v1", vpa.spec.target_ref.kind or "", vpa.spec.target_ref.name or "")
    selector = resolve_selector(target, result.owners)
    assert isinstance(selector, Selector)
    pods = result.pods.by_index(BY_NAMESPACE, namespace)
    assert len(pods) == 2
    assert all(selector.matches(pod.metadata.labels) for pod in pods)
    for pod in pods:
        owner = build_controller_ref(namespace, pod.metadata.controller)
        assert owner is not None
        assert result.owners.follow(owner).topmost == target
        assert (
            pod.spec.containers[0].resources
            == plain.pods.by_index(BY_NAMESPACE, "shop")[0].spec.containers[0].resources
        )
        assert pod.metadata.annotations["vpaObservedContainers"] == pod.spec.containers[0].name
    (node,) = result.nodes
    assert len(result.pods.by_index(BY_NODE, node.metadata.name)) == 2
    assert node.metadata.labels["kubernetes.io/hostname"] == node.metadata.name
    assert node.metadata.labels["kubernetes.io/arch"] == "amd64"
    assert {key for key in node.status.allocatable if not key.startswith("key-")} == {"cpu", "memory", "pods"}
    (checkpoint,) = result.checkpoints
    assert checkpoint.spec.vpa_object_name == vpa.metadata.name
    assert checkpoint.spec.container_name == pods[0].spec.containers[0].name
    assert checkpoint.status == next(iter(plain.checkpoints)).status
    policies = vpa.spec.resource_policy
    assert policies is not None
    assert [policy.container_name for policy in policies.container_policies or ()] == [
        checkpoint.spec.container_name,
        "*",
    ]
    assert set(zip(result.usage.namespaces, result.usage.pods, strict=True)) == {
        (namespace, pod.metadata.name) for pod in pods
    }
    assert result.usage.cpu.tolist() == plain.usage.cpu.tolist()
    (hpa,) = result.hpas
    assert hpa.spec.scale_target_ref.name == target.name
    assert hpa.spec.metrics == next(iter(plain.hpas)).spec.metrics
    (limits,) = result.limit_ranges
    assert limits.spec == next(iter(plain.limit_ranges)).spec
    assert result.freeze is not None
    updater = result.component("updater")
    assert updater is not None
    assert updater.image == "trellis:1.0"
    assert updater.flags == {"in-recommendation-bounds-eviction-lifetime-threshold": "6h"}


def test_another_secret_gives_other_pseudonyms() -> None:
    (one,), (other,) = (dump_state(shop(), mask=mask(secret)).vpas for secret in (b"1", b"2"))
    assert one.metadata.name != other.metadata.name


@given(st.lists(NAMES, unique=True, max_size=30))
def test_equal_names_have_equal_pseudonyms_and_different_names_different_ones(names: list[str]) -> None:
    masked = Pseudonyms(b"0")
    for how in (masked.mask_name, masked.mask_namespace, masked.mask_node, masked.mask_key):
        once = [how(name) for name in names]
        assert once == [how(name) for name in names]
        assert len(set(once)) == len(names)


@pytest.mark.parametrize(
    ("kind", "name", "pod"),
    [
        ("Deployment", "web-front", "web-front-5d4f8b7c9-x2x9z"),
        ("StatefulSet", "db", "db-11"),
        ("DaemonSet", "agent", "agent-x2x9z"),
        ("CronJob", "night-run", "night-run-29012345-x2x9z"),
    ],
)
def test_pods_are_still_named_after_their_controllers(kind: str, name: str, pod: str) -> None:
    masked = mask()
    pattern = build_pod_name_pattern(TargetRef("shop", "", kind, masked.mask_name(name)))
    assert pattern is not None
    assert pattern.fullmatch(masked.mask_name(pod))
    assert not pattern.fullmatch(masked.mask_name(f"other-{pod}"))


@pytest.mark.parametrize(
    "text",
    ["app=web", "app==web,example.com/team!=payments", "app in (web,api),!canary", "example.com/team notin (payments)"],
)
def test_a_selector_selects_the_same_pods(text: str) -> None:
    masked = mask()
    before, after = parse_selector(text), parse_selector(masked.mask_selector(text))
    for labels in (LABELS, {"app": "api"}, {"app": "api", "canary": "yes"}, {"app": "db"}, {}):
        renamed = {masked.mask_key(key): masked.mask_label(key, value) for key, value in labels.items()}
        assert before.matches(labels) == after.matches(renamed)


def test_a_component_with_a_custom_name_is_anonymized() -> None:
    line = DumpWriter(mask()).encode_component(
        DumpedComponent("updater", "kube-system", "acme-updater", "acme.example/acme-up:2")
    )
    assert b"acme" not in line


def test_known_annotations_are_kept() -> None:
    before = {
        "vpaCpuStartupBoost/app": '{"requests":{"cpu":"1"}}',
        "vpa-post-processor.kubernetes.io/app_integerCPU": "true",
        "trellis.x-k8s.io/shadow-recommenders": "seasonal,acme",
        "trellis.x-k8s.io/kept-from": "web-vpa-app",
        "trellis.x-k8s.io/freeze": "alice",
        "trellis.x-k8s.io/sized": '{"by": "VerticalPodAutoscaler/web"}',
        "note": SECRET,
    }
    masked = mask()
    app = masked.mask_name("app")
    after = masked.anonymize({"metadata": {"annotations": before}})["metadata"]["annotations"]
    assert after == {
        f"vpaCpuStartupBoost/{app}": '{"requests":{"cpu":"1"}}',
        f"vpa-post-processor.kubernetes.io/{app}_integerCPU": "true",
        "trellis.x-k8s.io/shadow-recommenders": f"seasonal,{masked.mask_name('acme')}",
        "trellis.x-k8s.io/kept-from": masked.mask_name("web-vpa-app"),
        "trellis.x-k8s.io/freeze": masked.mask_name("alice"),
    }


def test_a_custom_kind_is_anonymized() -> None:
    writing = DumpWriter(mask())
    target = TargetRef("shop", "acme.example/v1", "CashRegister", "till")
    line = writing.encode_scale(target, ScaleInfo("app=till")).decode()
    for word in ("acme", "CashRegister", "till", "shop"):
        assert word not in line


def test_disruption_annotations_are_kept_with_anonymized_names() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    volumes: list[Document] = [{"name": name, "emptyDir": {}} for name in ("payments", "cache")]
    pod = {"kind": "Pod", "metadata": {"annotations": {key: "payments, cache"}}, "spec": {"volumes": volumes}}
    masked = mask().anonymize(redact(pod, "Pod"))
    named = [volume["name"] for volume in masked["spec"]["volumes"]]
    assert masked["metadata"]["annotations"] == {key: ", ".join(named)}
    assert "payments" not in named


def test_access_modes_of_a_claim_are_not_anonymized() -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {}, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    assert mask().anonymize(claim)["spec"] == {"accessModes": ["ReadWriteOncePod"]}
