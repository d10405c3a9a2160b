"""What Trellis says on the wire, request by request."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from trellis.kube.resources import DEPLOYMENTS, NODES, PODS, VPAS
from trellis.kube.transport.requests import (
    Preconditions,
    Request,
    build_create,
    build_delete,
    build_eviction,
    build_get,
    build_list,
    build_patch,
    build_watch,
)
from trellis.kube.write.patches import apply_patch, json_patch, merge_patch, strategic_patch


def _body(request: Request) -> object:
    assert request.body is not None
    return msgspec.json.decode(request.body)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.path("shop", "web-1", "resize"), "/api/v1/namespaces/shop/pods/web-1/resize"),
        (NODES.path("shop", "n1"), "/api/v1/nodes/n1"),
        (DEPLOYMENTS.path("shop", "web", "scale"), "/apis/apps/v1/namespaces/shop/deployments/web/scale"),
        (VPAS.path(), "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"),
        (NODES.path(name="a/b?c"), "/api/v1/nodes/a%2Fb%3Fc"),
    ],
)
def test_a_path_follows_group_namespace_and_name(path: str, expected: str) -> None:
    assert path == expected


def test_a_list_requests_500_objects_with_compression() -> None:
    request = build_list(PODS, label_selector="app=web", field_selector="spec.nodeName=n1")
    assert request.query == (("labelSelector", "app=web"), ("fieldSelector", "spec.nodeName=n1"), ("limit", "500"))
    assert request.headers["Accept-Encoding"] == "gzip"


def test_a_continued_list_leaves_out_the_version_which_the_server_would_refuse_beside_the_token() -> None:
    request = build_list(PODS, continue_from="abc", resource_version="0", resource_version_match="NotOlderThan")
    assert dict(request.query) == {"limit": "500", "continue": "abc"}
    fresh = build_list(PODS, resource_version="7", resource_version_match="NotOlderThan", limit=0)
    assert dict(fresh.query) == {"resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}


def test_a_watch_requests_bookmarks_and_times_out_if_the_server_does_not_end_it() -> None:
    request = build_watch(PODS, "shop", resource_version="7", timeout_seconds=100)
    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "100",
    }
    assert request.timeout is not None
    assert 100 < request.timeout <= 160
    assert "allowWatchBookmarks" not in dict(build_watch(PODS, bookmarks=False).query)


def test_metadata_alone_is_asked_for_in_the_form_that_fits_the_verb() -> None:
    owners = PODS.as_metadata()
    assert "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" in build_list(owners).headers["Accept"]
    assert "as=PartialObjectMetadata;g=meta.k8s.io;v=v1" in build_watch(owners).headers["Accept"]
    assert build_get(owners, "web", "shop").path == build_get(PODS, "web", "shop").path
    assert "Partial" not in build_list(PODS).headers["Accept"]


def test_each_kind_of_patch_has_its_content_type_and_its_body() -> None:
    patches = [
        json_patch([{"op": "replace", "path": "/a", "value": 1}]),
        merge_patch({"a": None}),
        strategic_patch({"spec": {"containers": [{"name": "app"}]}}),
        apply_patch({"apiVersion": "v1", "kind": "Pod"}),
    ]
    sent = [build_patch(PODS, "web", patch, "shop") for patch in patches]
    assert [(request.headers["Content-Type"], _body(request)) for request in sent] == [
        ("application/json-patch+json", [{"op": "replace", "path": "/a", "value": 1}]),
        ("application/merge-patch+json", {"a": None}),
        ("application/strategic-merge-patch+json", {"spec": {"containers": [{"name": "app"}]}}),
        ("application/apply-patch+yaml", {"apiVersion": "v1", "kind": "Pod"}),
    ]
    assert {request.method for request in sent} == {"PATCH"}


def test_only_a_forced_apply_has_the_force_parameter() -> None:
    forced = build_patch(VPAS, "web", apply_patch({}, force=True), "shop", field_manager="trellis")
    assert dict(forced.query) == {"fieldManager": "trellis", "force": "true"}
    assert "force" not in dict(build_patch(VPAS, "web", apply_patch({}), "shop").query)


@pytest.mark.parametrize(
    "request_",
    [
        build_create(PODS, {}, "shop", dry_run=True),
        build_patch(PODS, "web", merge_patch({}), "shop", dry_run=True),
        build_delete(PODS, "web", "shop", dry_run=True),
        build_eviction(PODS, "web", "shop", dry_run=True),
    ],
    ids=lambda request: request.method,
)
def test_every_write_can_be_a_dry_run(request_: Request) -> None:
    assert dict(request_.query) == {"dryRun": "All"}


def test_a_deletion_carries_its_preconditions() -> None:
    request = build_delete(
        PODS, "web", "shop", preconditions=Preconditions("u1", "7"), grace_period_seconds=0, propagation="Background"
    )
    assert request.method == "DELETE"
    assert _body(request) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    plain = build_delete(PODS, "web", "shop", preconditions=Preconditions())
    assert _body(plain) == {"apiVersion": "v1", "kind": "DeleteOptions"}


def test_an_eviction_has_the_pods_name_and_uid() -> None:
    request = build_eviction(PODS, "web-1", "shop", preconditions=Preconditions(uid="u1"))
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")
    assert _body(request) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }
    assert "deleteOptions" not in str(_body(build_eviction(PODS, "web-1", "shop")))


def test_building_requests_does_not_import_the_http_library() -> None:
    code = "import sys, trellis.kube.client, trellis.testing.scripted_transport; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
