"""What a server serves, by the new discovery and by the old."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from trellis.base.errors import Forbidden
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.resources import DEPLOYMENTS, HPAS, PODS, VPAS
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import ScriptedTransport, error_response, json_response

_V2 = {"content-type": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

_PODS = {
    "resource": "pods",
    "responseKind": {"group": "", "version": "", "kind": "Pod"},
    "scope": "Namespaced",
    "shortNames": ["po"],
    "verbs": ["get", "list"],
    "subresources": [{"subresource": "resize"}, {"subresource": "eviction"}],
}
_HPAS = {"resource": "horizontalpodautoscalers", "responseKind": {"kind": HPAS.kind}, "scope": "Namespaced"}


def _group(name: str, *versions: tuple[str, list[object], str]) -> dict[str, object]:
    listed = [{"version": v, "resources": resources, "freshness": fresh} for v, resources, fresh in versions]
    return {"metadata": {"name": name}, "versions": listed}


def _discover(transport: ScriptedTransport) -> Served:
    return asyncio.run(Client(transport).discover())


def test_aggregated_discovery_takes_two_requests() -> None:
    transport = ScriptedTransport(
        json_response({"items": [_group("", ("v1", [_PODS], "Current"))]}, headers=_V2),
        json_response(
            {
                "items": [
                    _group("autoscaling", ("v2", [_HPAS], "Current"), ("v1", [_HPAS], "Current")),
                    _group("metrics.k8s.io", ("v1beta1", [], "Stale")),
                ]
            },
            headers=_V2,
        ),
    )
    served = _discover(transport)
    assert [request.path for request in transport.requests] == ["/api", "/apis"]
    pod = served.find("", "Pod")
    assert pod is not None
    assert (pod.subresources, pod.short_names, pod.namespaced) == (("resize", "eviction"), ("po",), True)
    hpa = served.find("autoscaling", HPAS.kind)
    assert hpa is not None
    assert hpa.version == "v2"
    assert served.serves(HPAS)
    assert not served.serves(VPAS)
    assert served.stale == ("metrics.k8s.io/v1beta1",)


_OLD: Mapping[str, Response] = {
    "/api": json_response({"kind": "APIVersions", "versions": ["v1"]}),
    "/apis": json_response(
        {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "apps",
                    "versions": [
                        {"groupVersion": "apps/v1beta1", "version": "v1beta1"},
                        {"groupVersion": "apps/v1", "version": "v1"},
                    ],
                    "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
                },
                {
                    "name": "metrics.k8s.io",
                    "versions": [{"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}],
                },
            ],
        }
    ),
    "/api/v1": json_response(
        {
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"], "shortNames": ["po"]},
                {"name": "pods/resize", "kind": "Pod", "namespaced": True, "verbs": ["patch"]},
            ]
        }
    ),
    "/apis/apps/v1": json_response({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}),
    "/apis/apps/v1beta1": json_response(
        {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}
    ),
    "/apis/metrics.k8s.io/v1beta1": error_response(503, "ServiceUnavailable", "the metrics server is down"),
}


def test_a_server_without_aggregated_discovery_is_discovered_by_group() -> None:
    def old_server(request: Request) -> Response:
        return _OLD[request.path]

    served = _discover(ScriptedTransport(handler=old_server))
    assert served.serves(PODS)
    assert served.serves(DEPLOYMENTS)
    pod, deployment = served.find("", "Pod"), served.find("apps", "Deployment")
    assert pod is not None
    assert deployment is not None
    assert (pod.subresources, deployment.version) == (("resize",), "v1")
    assert served.stale == ("metrics.k8s.io/v1beta1",)


def test_discovery_without_rights_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        _discover(ScriptedTransport(error_response(403, "Forbidden", "no discovery for you")))


def test_a_discovered_kind_can_be_read_as_metadata() -> None:
    served = _discover(
        ScriptedTransport(
            json_response({"items": [_group("", ("v1", [_PODS], "Current"))]}, headers=_V2),
            json_response({"items": []}, headers=_V2),
        )
    )
    kind = served.find("", "Pod", "v1")
    assert kind is not None
    assert kind.resource.path("shop") == PODS.path("shop")
    assert kind.resource.metadata_only
    assert served.find("", "Pod", "v2") is None


@pytest.mark.parametrize(("major", "minor", "number"), [("1", "36", (1, 36)), ("1", "33+", (1, 33)), ("", "", (0, 0))])
def test_the_version_of_a_server_is_a_number_to_compare(major: str, minor: str, number: tuple[int, int]) -> None:
    document = {"major": major, "minor": minor, "gitVersion": "v1.36.3-gke.1", "platform": "linux/amd64"}
    version = asyncio.run(Client(ScriptedTransport(json_response(document))).version())
    assert version.number == number
    assert version.git_version == "v1.36.3-gke.1"
