"""A cluster moves from upstream's CRD to ours and back, on an API server of its own, and keeps its objects.

Upstream's definition stands in as ours without what we add: the fields and values that the declaration marks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from testbed.client import Api
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import Refused
from testbed.waiting import until
from trellis.api.registry import VPA
from trellis.api.schema.crds import build_crd
from trellis.api.schema.tree import SchemaNode, build_schema_tree

NAME = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/verticalpodautoscalers.autoscaling.k8s.io"
OBJECTS = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
RULES = "x-kubernetes-validations"
T = TypeVar("T")


def upstreams() -> dict[str, Any]:
    """Our CRD as upstream has it: without added fields, without our rules, with fewer values."""
    definition = copy.deepcopy(build_crd(VPA))
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for name, struct in (("spec", VPA.spec), ("status", VPA.status)):
        _reduce(build_schema_tree(struct), properties[name])
    return definition


def _reduce(node: SchemaNode, schema: dict[str, Any]) -> None:
    schema.pop(RULES, None)
    if node.field.upstream_enum and "enum" in schema:
        schema["enum"] = list(node.field.upstream_enum)
    for name, member in node.members.items():
        if member.field.added:
            del schema["properties"][name]
        else:
            _reduce(member, schema["properties"][name])
    if node.items is not None and "items" in schema:
        _reduce(node.items, schema["items"])


def install(api: Api, definition: dict[str, Any]) -> None:
    """Replace the definition, and wait until the API server goes by the new one."""
    generation = api.apply(definition)["metadata"]["generation"]

    def established() -> bool:
        result = api.get(NAME)
        conditions = result.get("status", {}).get("conditions") or []
        return result["metadata"]["generation"] >= generation and any(
            condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
        )

    until("the definition to be established", established)
    until("the kind to be served", lambda: served(api))


def served(api: Api) -> bool:
    """Whether the kind can be asked for."""
    return patiently(lambda: api.find(OBJECTS)) is not None


def patiently(ask: Callable[[], T]) -> T:
    """The answer, as soon as there is one: while a definition changes, the server is "(re)initializing" its storage."""

    def asked() -> tuple[T] | None:
        try:
            return (ask(),)
        except Refused as refusal:
            if refusal.status != 429:
                raise
            return None

    return until("the storage to be initialized", asked)[0]


def spec_of(api: Api, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = patiently(lambda: api.get(f"{OBJECTS}/{name}"))["spec"]
    return spec


def vpa(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, **spec},
    }


@pytest.fixture
def api(own_api_server: ControlPlane) -> Api:
    cluster: Cluster = own_api_server.cluster
    return cluster.api


def accepts(api: Api, document: dict[str, Any]) -> bool:
    try:
        patiently(lambda: api.apply(document, dry_run=True))
    except Refused:
        return False
    return True


@pytest.mark.req("CR-28")
def test_stored_objects_survive_the_way_to_our_crd_and_back(api: Api) -> None:
    install(api, upstreams())
    stored = vpa("before", updatePolicy={"updateMode": "Auto", "minReplicas": 2})
    patiently(lambda: api.create(stored))
    requirement = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    ours = vpa("after", updatePolicy={"updateMode": "InPlaceOnly", "actuationRequirements": [requirement]})
    assert not accepts(api, ours)

    install(api, build_crd(VPA))
    assert spec_of(api, "before") == stored["spec"]
    until("our schema to hold", lambda: accepts(api, ours))
    patiently(lambda: api.create(ours))

    install(api, upstreams())
    until("upstream's schema to hold", lambda: not accepts(api, vpa("x", updatePolicy={"updateMode": "InPlaceOnly"})))
    assert spec_of(api, "before") == stored["spec"]
    # UnsupportedStoredValue and pruned, exactly as the downgrade check foretells.
    assert spec_of(api, "after")["updatePolicy"] == {"updateMode": "InPlaceOnly"}


def test_an_old_version_that_objects_are_stored_under_stays_in_our_crd(api: Api) -> None:
    """A definition that drops a version named in `storedVersions` is refused; ours keeps it."""
    first = upstreams()
    current, retired = first["spec"]["versions"]
    current["storage"], retired["storage"], retired["served"] = False, True, True
    install(api, first)
    patiently(lambda: api.create(vpa("old")))
    install(api, upstreams())
    assert set(api.get(NAME)["status"]["storedVersions"]) == {"v1", "v1beta2"}
    without = copy.deepcopy(build_crd(VPA))
    del without["spec"]["versions"][1]
    with pytest.raises(Refused, match="v1beta2"):
        api.apply(without)
    install(api, build_crd(VPA))
    assert spec_of(api, "old")["targetRef"]["name"] == "old"
