"""`trellis explain node` as a user runs it, and what nodes have to do with Buffers and pods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.api_server.server import ModelServer
from support.builders.collected_clusters import Cluster, shop, spare
from support.builders.collected_node_groups import Pools, pools
from trellis.cli.dump_reader import add_node_settings, read_node_groups
from trellis.cli.main import trellis
from trellis.core.cluster.dump_format import DumpedComponent, MissingData
from trellis.core.explain import CollectedSettings
from trellis.kube.client import Client


def explain(cluster: Pools, folder: Path, *arguments: str) -> Result:
    file = folder / "dump.jsonl"
    file.write_bytes(b"".join(cluster.lines()))
    return CliRunner(env={"COLUMNS": "100"}).invoke(trellis, ["explain", *arguments, "--dump", str(file)])


def with_flags(**flags: str) -> Pools:
    cluster = pools()
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    cluster.components = [component for component in cluster.components if component.component != "nodes"]
    cluster.components.append(DumpedComponent("nodes", "kube-system", "trellis-nodes", flags=named))
    return cluster


def served(cluster: Cluster) -> ModelServer:
    """The same cluster, to be asked."""
    server = ModelServer()
    server.objects["/version"] = {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
    server.objects |= {"/api": {"versions": ["v1"]}, "/apis": {"groups": []}, "/api/v1": {"resources": []}}
    for (kind, (namespace, name)), document in cluster.objects.items():
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        server.put(f"{root}{where}/{kind.lower()}s/{name}", document)
    server.put("/api/v1/namespaces/kube-system", {})
    return server


def ask(server: ModelServer, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    @asynccontextmanager
    async def connected(*_access: object) -> AsyncIterator[tuple[Client, str]]:
        yield server.client, "shop"

    monkeypatch.setattr("trellis.cli.commands.explain.open_chosen_client", connected)
    return CliRunner().invoke(trellis, ["explain", *arguments])


def test_a_cluster_gives_the_same_explanation_as_its_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    server = served(pools())
    result = ask(server, monkeypatch, "node", "small-3")
    assert "PodNotReplicated" in result.output, result.output
    assert not [
        request.path
        for request in server.requests
        if request.path.endswith(("/verticalpodautoscalers", "/replicasets"))
    ]
    assert "2 on nodes of large that would be ordered" in ask(server, monkeypatch, "buffer", "builds").output
    assert "The pod is not scheduled. NoGroupFits" in ask(server, monkeypatch, "pod", "import-2").output


def test_of_a_pod_that_has_a_node_the_cluster_is_asked_nothing_about_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    server = served(pools())
    assert "PLACEMENT" not in ask(server, monkeypatch, "pod", "web-1-1").output
    assert not [request.path for request in server.requests if "persistentvolumes" in request.path]


def test_a_node_is_explained(tmp_path: Path) -> None:
    result = explain(pools(), tmp_path, "node", "small-2")
    assert result.exit_code == 0, result.output
    assert "It is not removed yet. NodeUnneeded" in result.output


def test_json_is_the_structure(tmp_path: Path) -> None:
    document = json.loads(explain(pools(), tmp_path, "node", "small-3", "--json").output)
    assert (document["kind"], document["node"]["decision"]["reason"]["code"]) == ("node", "PodNotReplicated")


def test_buffers_and_pending_pods_report_nodes(tmp_path: Path) -> None:
    assert "2 on nodes of large that would be ordered" in explain(pools(), tmp_path, "buffer", "builds").output
    result = explain(pools(), tmp_path, "pod", "import-2")
    assert (result.exit_code, "The pod is not scheduled. NoGroupFits" in result.output) == (0, True)


def test_without_groups_buffers_and_pods_tell_nothing_of_them(tmp_path: Path) -> None:
    cluster = pools()
    del cluster.objects["ConfigMap", ("kube-system", "trellis-kwok-node-groups")]
    for arguments in (("buffer", "builds"), ("pod", "import-2")):
        result = explain(cluster, tmp_path, *arguments)
        assert (result.exit_code, "PLACEMENT" in result.output) == (0, False)


def test_what_may_not_be_read_makes_a_partial_answer(tmp_path: Path) -> None:
    cluster = pools()
    cluster.missing = [MissingData("StorageClass", "", "may not be read")]
    result = explain(cluster, tmp_path, "node", "small-2")
    assert (result.exit_code, "StorageClass: may not be read" in result.output) == (1, True)


def test_flags_of_the_autoscaler_count(tmp_path: Path) -> None:
    cluster = with_flags(scale_down_utilization_threshold="0.8", scale_down_unneeded_time="5m")
    assert "with a utilization of at most 80 %" in explain(cluster, tmp_path, "node", "small-1").output
    assert "at 08:05 UTC, in 5 min" in explain(cluster, tmp_path, "node", "small-2").output


@pytest.mark.parametrize(
    ("flag", "value"),
    [("scale_down_utilization_threshold", "much"), ("expander", "cheapest"), ("max_drain_parallelism", "0")],
)
def test_a_flag_that_cannot_be_read_stands_for_its_default_and_is_named(flag: str, value: str, tmp_path: Path) -> None:
    result = explain(with_flags(**{flag: value}), tmp_path, "node", "small-2")
    assert (result.exit_code, "FlagUnreadable" in result.output) == (1, True)
    assert "with a utilization of at most 50 %" in result.output


def test_flags_that_can_be_read_keep_their_meaning_beside_others() -> None:
    cluster = with_flags(expander="price", max_nodes_total="many", expendable_pods_priority_cutoff="5")
    components = add_node_settings(CollectedSettings(), cluster.collected())
    assert (components.nodes_up.expanders, components.expendable_below) == (("price",), 5)
    assert components.nodes_up.max_nodes_total == 0
    assert len(components.problems) == 1


def test_where_the_autoscaler_cannot_be_read_its_defaults_are_named_as_such(tmp_path: Path) -> None:
    cluster = pools()
    cluster.components = []
    result = explain(cluster, tmp_path, "node", "small-2")
    assert (result.exit_code, "FlagsNotObserved" in result.output) == (0, True)


def test_node_groups_have_the_nodes_with_their_label() -> None:
    groups = read_node_groups(pools().collected())
    assert {state.group.name: state.target for state in groups.states} == {"small": 3, "large": 0}
    assert groups.declared


def test_usage_says_nothing_about_a_node_and_a_namespace_beside_it_has_no_effect(tmp_path: Path) -> None:
    result = CliRunner().invoke(trellis, ["explain", "node", "small-2", "--prometheus-url", "http://prometheus"])
    assert (result.exit_code, "--prometheus-url: a node is explained without usage" in result.output) == (2, True)
    assert (
        explain(pools(), tmp_path, "node", "small-2", "-n", "shop").output
        == explain(pools(), tmp_path, "node", "small-2").output
    )


def test_of_a_workload_the_cluster_is_asked_about_nodes_only_where_there_are_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = served(shop())
    shown = ask(server, monkeypatch, "deployment/web").output
    assert "Size: VerticalPodAutoscaler web governs 3 pods of Deployment web" in shown, shown
    assert not [request.path for request in server.requests if "persistentvolumes" in request.path]
    server = served(spare())
    shown = ask(server, monkeypatch, "deploy", "web").output
    assert "Spare capacity: Buffer web. It keeps spare capacity for" in shown, shown
    assert "all chunks fit on existing nodes" in shown
