"""What `trellis check --explain` says of running pods: what the updater's plan answers for them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from support.builders.manifests import STORY_2, bucket
from support.builders.manifests import hvpa as hvpa_document
from support.builders.manifests import vpa as vpa_document
from support.worlds.resizes import Document, container, decided, governor, running
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects

LEFT = "running pods are not changed"
RESIZED = "running pods are resized in place, and evicted if that fails"
FLAG = "--in-place-skip-disruption-budget"
ACTING = ["Recreate", "InPlaceOrRecreate", "InPlace"]


def workload(kind: str = "Deployment", app: Document | None = None, **spec: Any) -> Document:
    template = {"spec": {"containers": [app or container()]}}
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template, **spec}}


def hpa(**spec: Any) -> Document:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue"}}}
    metadata = {"name": "web", "namespace": "shop"}
    spec = {"scaleTargetRef": reference, "metrics": [metric], **spec}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def vpa(mode: str, kind: str = "Deployment", **policy: Any) -> Document:
    document = vpa_document(updatePolicy={"updateMode": mode, **policy})
    document["metadata"]["namespace"] = "shop"
    document["spec"]["targetRef"] |= {"kind": kind, "name": "web"}
    return document


def hvpa(*buckets: Any) -> Document:
    document = hvpa_document(*buckets, vpa={"deploy": True})
    document["metadata"]["namespace"] = "shop"
    document["spec"]["targetRef"] |= {"kind": "Deployment", "name": "web"}
    return document


def described(*documents: Document) -> str:
    text = yaml.safe_dump_all(copy.deepcopy(documents))
    (description,) = describe_objects(check([ManifestSource("manifests.yaml", text.encode())]))
    return " ".join(description["sentences"])


@pytest.mark.parametrize("mode", ACTING)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize("given", [{}, {"replicas": 1}])
def test_a_single_replica_is_promised_nothing_that_the_default_minimum_rules_out(
    mode: str, kind: str, given: Document
) -> None:
    text = described(workload(kind, **given), vpa(mode, kind))
    assert LEFT in text
    assert f"{kind} web has 1 replica, and the updater changes running pods only if at least 2 replicas run" in text
    assert "evicted if that fails" not in text.partition("With `minReplicas: 1`")[0]
    assert FLAG in text


@pytest.mark.parametrize("mode", ACTING)
@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("minimum", [None, 1, 3])
@pytest.mark.parametrize("restarts", [(), ("cpu",), ("cpu", "memory")])
@pytest.mark.parametrize("requested", [True, False])
def test_pods_are_reported_as_left_unchanged_exactly_where_the_plan_does_nothing(
    mode: str, replicas: int, minimum: int | None, restarts: tuple[str, ...], requested: bool
) -> None:
    app = container(restarts=restarts) if requested else container(cpu=None, memory=None)
    policy: Document = {} if minimum is None else {"minReplicas": minimum}
    pods = [running(f"web-1-{number}", copy.deepcopy(app)) for number in range(replicas)]
    acts = any(
        decided(governor(mode, {"app": target}, 0.0, policy=policy), *pods).actions
        for target in ({"cpu": "1", "memory": "2Gi"}, {"cpu": "250m", "memory": "512Mi"})
    )
    text = described(workload(app=app, replicas=replicas), vpa(mode, **policy))
    assert (LEFT not in text) is acts


def test_the_flag_is_named_only_where_the_resize_restarts_no_container() -> None:
    assert FLAG not in described(workload(app=container(restarts=("cpu", "memory"))), vpa("InPlaceOrRecreate"))
    assert f"With the updater's `{FLAG}`" in described(workload(), vpa("InPlaceOrRecreate"))
    text = described(workload(), vpa("Recreate"))
    assert f"With mode InPlaceOrRecreate and the updater's `{FLAG}`" in text
    assert "With `minReplicas: 1` they are evicted and recreated with the recommended requests" in text


def test_the_bounds_of_an_hpa_count_and_not_the_replicas_of_the_manifest() -> None:
    text = described(workload(replicas=5), hpa(maxReplicas=8), vpa("InPlaceOrRecreate"))
    assert RESIZED in text
    assert "While Deployment web has 1 replica, running pods are not changed" in text
    text = described(workload(), hpa(minReplicas=2, maxReplicas=8), vpa("InPlaceOrRecreate"))
    assert RESIZED in text
    assert LEFT not in text


def test_a_minimum_is_reported_where_the_workload_is_not_in_the_files() -> None:
    assert "With fewer than 2 running replicas (the updater's default)" in described(vpa("Recreate"))
    assert "With fewer than 3 running replicas, running" in described(vpa("Recreate", minReplicas=3))
    assert LEFT not in described(vpa("Recreate", minReplicas=1))
    assert FLAG in described(vpa("InPlace"))
    assert "With fewer than 2 running replicas" in described(workload("DaemonSet"), vpa("Recreate", "DaemonSet"))


def test_the_first_bucket_of_an_hvpa_resizes_its_single_replica() -> None:
    text = described(workload(), hvpa(*STORY_2))
    assert "Running pods are resized in place, and evicted if that fails; at 1 replica none is evicted" in text
    assert "waits" not in text
    waits = described(workload(app=container(restarts=("memory",))), hvpa(*STORY_2))
    assert "At 1 replica memory is not changed: at least 2 replicas must run" in waits
    many = described(workload(), hvpa(bucket((2, 4), ("0", "4"), ("0", "4G"))))
    assert "Running pods are resized in place, and evicted if that fails. " in many


def test_a_frozen_object_and_one_that_sizes_nothing_are_promised_nothing() -> None:
    frozen = vpa("Recreate")
    frozen["metadata"]["annotations"] = {"trellis.x-k8s.io/freeze": "alice"}
    text = described(workload(replicas=3), frozen)
    assert LEFT in text
    assert "frozen by alice" in text
    off = vpa("Recreate")
    off["spec"]["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}
    assert LEFT in described(workload(replicas=3), off)
    impossible = described(workload(app=container(cpu=None, memory=None), replicas=3), vpa("InPlace"))
    assert "the recommended size needs a new pod" in impossible


def test_a_resize_that_restarts_a_container_is_reported_as_one() -> None:
    text = described(workload(app=container(restarts=("memory",)), replicas=3), vpa("InPlace"))
    assert "A resize of memory restarts the container" in text
