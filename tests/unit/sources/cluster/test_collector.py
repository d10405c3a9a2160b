"""Objects collected from a cluster, skipped ones, and reports of missing data."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api_server.server import ModelServer
from support.builders.dumps import HASH, NOW, SECRET, collect_dump, dump_state, hide, shop
from support.virtual_time import run
from trellis.api.kube.coordination import ConfigMap
from trellis.base.errors import InvalidRecording, Throttled, Unreachable
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, BY_NODE, BY_OWNER
from trellis.kube.transport.requests import Request
from trellis.sim.dump.component_settings import read_components
from trellis.sources.cluster.collector import collect_state
from trellis.sources.cluster.component_flags import parse_flags
from trellis.sources.cluster.components import ComponentDeployment, find_components
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.lists import CollectionScope
from trellis.testing.scripted_transport import ScriptedResponse, error_response


def test_a_dump_has_the_collected_objects() -> None:
    result = dump_state(shop())
    assert (result.time, result.about.server) == (NOW, "v1.34.2")
    assert set(result.about.namespaces) == {"shop", "office", "kube-system"}
    vpa = result.vpas.get("shop", "web-vpa")
    assert vpa is not None
    assert vpa.spec.target_ref.name == "web"
    assert result.checkpoints.get("shop", "web-vpa-app") is not None
    assert len(result.pods.by_index(BY_NAMESPACE, "shop")) == 2
    assert len(result.pods.by_index(BY_NODE, "ip-10-0-0-7")) == 2
    assert len(result.observed_pods.by_index(BY_OWNER, "r-1")) == 2
    deployment = result.workloads["Deployment"].get("shop", "web")
    assert deployment is not None
    assert result.owners.follow(TargetRef("shop", "apps/v1", "ReplicaSet", f"web-{HASH}")).topmost == TargetRef(
        "shop", "apps/v1", "Deployment", "web"
    )
    assert [hpa.metadata.name for hpa in (*result.hpas, *result.pdbs, *result.limit_ranges, *result.nodes)] == [
        "web-hpa",
        "web-pdb",
        "confines",
        "ip-10-0-0-7",
    ]
    assert result.freeze == {"by": "alice", "why": "incident 17"}
    assert [lease.spec.holder_identity for lease in result.leases] == ["vpa-updater-1"]


def test_usage_is_stored_in_columns() -> None:
    usage = dump_state(shop()).usage
    assert usage.namespaces == ["shop", "shop"]
    assert usage.containers == ["app", "app"]
    assert usage.cpu.tolist() == [0.123, 0.123]
    assert usage.memory.tolist() == [200 * 2**20] * 2


def test_components_are_stored_with_flags_but_without_secrets() -> None:
    updater = dump_state(shop()).component("updater")
    assert updater is not None
    assert updater.flags == {
        "in-recommendation-bounds-eviction-lifetime-threshold": "6h",
        "address": "http://prometheus",
    }


def test_other_programs_with_similar_names_are_no_components() -> None:
    def made(*command: str) -> ComponentDeployment:
        template = {"spec": {"containers": [{"image": "registry/own:1", "command": command}]}}
        return msgspec.convert({"metadata": {"name": "hvpa"}, "spec": {"template": template}}, ComponentDeployment)

    (result,) = run(find_components([made("trellis", "hvpa", "--ready-patience=90s"), made("/bin/hvpa")], read_nothing))
    assert (result.component, result.flags) == ("hvpa", {"ready-patience": "90s"})


async def read_nothing(_namespace: str, _name: str) -> ConfigMap | None:
    return None


def test_components_of_one_process_have_their_flags_in_an_installation_of_a_preset() -> None:
    server = shop()
    args = ["--components=all,-admission", "--updater.freeze-config-map=trellis-system/trellis-freeze", "--qps=9"]
    container = {"image": "registry/trellis:1", "command": ["trellis", "run"], "args": [*args, "--config=x"]}
    volume = {"configMap": {"name": "trellis-config"}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    server.put("/apis/apps/v1/namespaces/trellis-system/deployments/trellis", {"spec": {"template": template}})
    config = "kind: TrellisConfiguration\nupdater: {minReplicas: 1}\n"
    maps = "/api/v1/namespaces/trellis-system/configmaps"
    server.put(f"{maps}/trellis-config", {"data": {"config.yaml": config}})
    server.put(f"{maps}/trellis-freeze", {"data": {"by": "bob"}})
    lease = "/apis/coordination.k8s.io/v1/namespaces/trellis-system/leases/vpa-admission-controller"
    server.put(lease, {"spec": {"holderIdentity": "webhook"}})
    for path in [path for path in server.objects if "/namespaces/kube-system/deployments/" in path]:
        server.delete(path)
    state = dump_state(server)
    found = {component.component: component for component in state.components}
    assert set(found) == {"recommender", "updater", "hvpa", "buffers", "nodes"}
    updater = found["updater"]
    assert (updater.namespace, updater.flags["min-replicas"], updater.flags["qps"]) == ("trellis-system", "1", "9")
    assert "min-replicas" not in found["hvpa"].flags
    assert state.freeze == {"by": "bob"}
    assert read_components(state).admission_lease == ("trellis-system", "vpa-admission-controller")


def test_flags_and_values_may_be_separate_words() -> None:
    words = ["trellis", "updater", "--min-replicas", "1", "--leader-elect", "--token", SECRET, "-v=4"]
    assert parse_flags(words) == {"min-replicas": "1", "leader-elect": "true", "v": "4"}


def test_replica_sets_without_pods_and_events_about_probes_are_skipped() -> None:
    result = dump_state(shop())
    assert [item.metadata.name for item in result.workloads["ReplicaSet"]] == [f"web-{HASH}"]
    assert [event.reason for event in result.events] == ["EvictedByVPA"]


def test_no_secret_is_in_a_dump() -> None:
    dump = b"".join(collect_dump(shop()))
    assert SECRET.encode() not in dump
    assert b"last-applied" not in dump
    assert b"managedFields" not in dump
    assert b"imagePullSecrets" not in dump


_PLACES = (
    ("spec", "containers", 0, "env"),
    ("spec", "containers", 0, "args"),
    ("spec", "containers", 0, "livenessProbe"),
    ("spec", "containers", 0, "image"),
    ("spec", "volumes"),
    ("spec", "imagePullSecrets"),
    ("metadata", "annotations", "anything"),
    ("metadata", "managedFields"),
    ("spec", "securityContext"),
    ("stringData",),
)


def _nested(value: str) -> st.SearchStrategy[object]:
    def deeper(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        names = st.sampled_from(("value", "name", "command", "data", "x"))
        return st.lists(inner, min_size=1, max_size=2) | st.dictionaries(names, inner, min_size=1, max_size=2)

    return st.recursive(st.just(value), deeper, max_leaves=4)


@given(st.sampled_from(_PLACES), _nested(SECRET))
def test_unread_fields_of_a_pod_are_not_collected(place: tuple[str | int, ...], hidden: object) -> None:
    server = ModelServer()
    server.objects["/version"] = {}
    pod: dict[str, object] = {"spec": {"containers": [{"name": "app"}]}, "metadata": {"annotations": {}}, "status": {}}
    at: object = pod
    for step in place[:-1]:
        at = at[step]  # type: ignore[index]
    at[place[-1]] = hidden  # type: ignore[index]
    server.put("/api/v1/namespaces/shop/pods/web", pod)
    assert SECRET.encode() not in b"".join(collect_dump(server))


def test_patterns_select_namespaces() -> None:
    result = dump_state(shop(), "sh*")
    assert result.about.namespaces == ("shop",)
    assert not result.about.everywhere
    assert {pod.metadata.namespace for pod in result.pods} == {"shop"}
    assert result.component("updater") is not None


def test_a_pattern_without_matches_is_reported() -> None:
    assert MissingData("Namespace", "bank", "does not exist") in dump_state(shop(), "bank").missing
    assert MissingData("Namespace", "bank-*", "does not exist") in dump_state(shop(), "bank-*", "sh*").missing


def test_forbidden_kinds_are_reported_and_the_others_are_collected() -> None:
    server = shop()
    hide(server, "office", "kube-system")
    result = dump_state(server)
    assert [pod.metadata.namespace for pod in result.pods] == ["shop", "shop"]
    assert len(result.usage) == 2
    assert MissingData("Pod", "office", "may not be read") in result.missing
    assert MissingData("Pod", "kube-system", "may not be read") in result.missing
    assert not [item for item in result.missing_in("shop") if item.where == "shop"]
    assert result.freeze is None
    assert MissingData("ConfigMap trellis-freeze", "kube-system", "may not be read") in result.missing


def test_a_kind_forbidden_in_all_namespaces_is_reported_once() -> None:
    server = shop()
    hide(server, "office", "kube-system", "shop")
    result = dump_state(server)
    assert [item for item in result.missing if item.what == "Pod"] == [MissingData("Pod", "", "may not be read")]


def test_without_the_right_to_list_namespaces_the_given_names_are_used() -> None:
    server = shop()
    server.before = lambda request: (
        error_response(403, "Forbidden") if request.path in ("/api/v1/namespaces", "/api/v1/pods") else None
    )
    result = dump_state(server, "shop", "o*")
    assert result.about.namespaces == ("shop",)
    assert MissingData("Namespace", "", "may not be read") in result.missing


def test_a_server_without_discovery_is_assumed_to_serve_all_kinds() -> None:
    server = shop()
    assert dump_state(server).about.resizes_pods
    assert not [item for item in dump_state(server).missing if item.what == "kinds that are served"]
    server.before = lambda request: error_response(403, "Forbidden") if request.path == "/apis" else None
    assert MissingData("kinds that are served", "", "may not be read") in dump_state(server).missing


def test_a_kind_that_is_not_served_is_reported_once() -> None:
    server = shop()
    server.before = lambda request: error_response(404, "NotFound") if "verticalpod" in request.path else None
    result = dump_state(server, "shop", "office")
    assert MissingData("VerticalPodAutoscaler", "", "is not served by the cluster") in result.missing


def test_requests_to_a_busy_server_are_retried() -> None:
    server = shop()
    refused = 0

    def before(request: Request) -> ScriptedResponse | None:
        nonlocal refused
        if request.path == "/api/v1/pods" and refused < 2:
            refused += 1
            return error_response(429, "TooManyRequests", retry_after=3)
        return None

    server.before = before
    assert len(dump_state(server).pods) == 3


def test_a_failed_list_affects_no_other() -> None:
    server = shop()
    server.before = lambda request: (
        Throttled(429, "TooManyRequests", "busy") if request.path.endswith("/pods") else None
    )
    result = dump_state(server)
    assert MissingData("Pod", "", "could not be read: busy") in result.missing
    assert len(result.vpas) == 1


def test_a_server_that_does_not_answer_is_an_error() -> None:
    server = shop()
    server.faults.append(Unreachable("no route to host"))
    with pytest.raises(Unreachable, match="no route"):
        collect_dump(server)


def test_an_unreadable_object_is_reported() -> None:
    server = shop()
    server.put("/api/v1/namespaces/shop/pods/odd", {"spec": {"containers": "none"}})
    result = dump_state(server)
    assert len(result.pods) == 3
    assert [item.what for item in result.missing if item.where == "shop"] == ["Pod odd"]


def test_the_order_does_not_depend_on_the_order_of_responses() -> None:
    assert collect_dump(shop()) == collect_dump(shop())


def test_many_pages_are_one_list() -> None:
    server = shop()
    for number in range(1_203):
        server.put(f"/api/v1/namespaces/shop/pods/many-{number}", {"spec": {"containers": []}})
    writing = DumpWriter()
    result = ClusterState.from_dump(collect_dump(server, writing=writing))
    assert len(result.pods) == writing.counts["Pod"] == 1_206


def test_scales_of_unknown_kinds_and_of_their_controllers_are_read() -> None:
    server = shop()
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "u", "controller": True}
    server.put(
        "/apis/apps/v1/namespaces/shop/replicasets/roll-1",
        {
            "metadata": {"ownerReferences": [rollout]},
            "spec": {"replicas": 1},
        },
    )
    result = dump_state(server)
    response = result.scales[TargetRef("shop", "argoproj.io/v1alpha1", "Rollout", "web")]
    assert response.problem is not None


def test_other_recordings_and_incomplete_dumps_are_refused() -> None:
    other = [encode_line(HEADER, RecordingHeader(FORMAT_VERSION, "updater", "1"))]
    with pytest.raises(InvalidRecording, match="recorded this; only a file of `trellis dump` is a dump"):
        ClusterState.from_dump(other)
    with pytest.raises(InvalidRecording, match="was stopped"):
        ClusterState.from_dump(collect_dump(shop())[:1])
    with pytest.raises(InvalidRecording, match="is not valid in a recording"):
        ClusterState.from_dump(b"hello\n")


def test_a_truncated_dump_is_reported() -> None:
    lines = collect_dump(shop())
    assert ClusterState.from_dump(lines).is_complete
    assert not ClusterState.from_dump(lines[:-1]).is_complete


def test_a_command_works_from_the_collected_state() -> None:
    result = run(collect_state(shop().client, CollectionScope(("shop",)), NOW))
    assert result.is_complete
    assert [vpa.metadata.name for vpa in result.vpas] == ["web-vpa"]


def test_a_line_of_a_later_release_is_skipped() -> None:
    lines = [*collect_dump(shop()), encode_line("weather", {"rain": True}), encode_line("object", {"kind": "Cloud"})]
    assert len(ClusterState.from_dump(lines).pods) == 3


def test_every_line_is_json_with_its_kind() -> None:
    kinds = {json.loads(line)["kind"] for line in collect_dump(shop())}
    assert kinds == {"header", "about", "object", "usage", "component", "end"}
