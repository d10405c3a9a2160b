"""`trellis explain` and `trellis dump` with the node groups of providers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.worlds.providers.served_machines import BOTH, MACHINES, POOL, ServedMachines
from trellis.cli.dump_reader import read_dump, read_node_groups
from trellis.cli.main import trellis
from trellis.cli.options import NODE_GROUP_PARAMETERS
from trellis.controllers.nodes.group_settings import NodeGroupSettings
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.kube.client import Client
from trellis.runtime.settings.declarations import declared_settings
from trellis.sim.dump.fleet import build_fleet_from_dump


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedMachines:
    machines = ServedMachines()

    @asynccontextmanager
    async def connected(*_access: object) -> AsyncIterator[tuple[Client, str]]:
        yield machines.server.client, "shop"

    for command in ("explain", "dump"):
        monkeypatch.setattr(f"trellis.cli.commands.{command}.open_chosen_client", connected)
    monkeypatch.chdir(tmp_path)
    return machines


def trellis_run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(trellis, list(arguments))


def read_groups_of(result: Result) -> str:
    lines = result.output.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("NODE GROUP AND REQUESTS"))
    return " ".join(line.strip() for line in lines[begin + 1 : begin + 3])


def test_nodes_are_explained_with_the_groups_of_their_providers(machines: ServedMachines) -> None:
    result = trellis_run("explain", "node", "vm-1", BOTH)
    assert result.exit_code == 0, result.output
    assert f"Node group {POOL} has 1 node (minimum 0, maximum 10)" in read_groups_of(result)
    assert "Node group big has 1 node (minimum 0, maximum 2)" in read_groups_of(
        trellis_run("explain", "node", "node-of-big", BOTH)
    )
    assert not machines.written


@pytest.mark.usefixtures("machines")
def test_a_pod_and_a_buffer_are_explained_with_the_groups_of_providers() -> None:
    pod = trellis_run("explain", "pod", "import-1", BOTH)
    assert "The next scale-up, for all pods and Buffers: 1 node of big." in pod.output, pod.output
    excluded = f"Node groups {POOL} and big are excluded: NodeTooSmall (cpu)"
    assert excluded in _unwrap(trellis_run("explain", "pod", "import-2", BOTH))
    buffer = trellis_run("explain", "buffer", "builds", BOTH)
    assert "PLACEMENT" in buffer.output, buffer.output
    assert POOL in buffer.output


def test_the_providers_of_the_running_autoscaler_are_asked_without_a_flag(machines: ServedMachines) -> None:
    assert "NODE GROUP AND REQUESTS" in trellis_run("explain", "node", "vm-1").output
    assert POOL not in trellis_run("explain", "node", "vm-1").output
    machines.deploy("--cloud-provider=clusterapi", "--cluster-api-namespaces=fleet")
    assert POOL in trellis_run("explain", "node", "vm-1").output
    machines.deploy("--cloud-provider=clusterapi", "--cluster-api-namespaces=elsewhere")
    assert POOL not in trellis_run("explain", "node", "vm-1").output
    assert POOL in trellis_run("explain", "node", "vm-1", "--cluster-api-namespaces=fleet").output


def test_a_file_of_the_pod_of_the_autoscaler_has_to_be_named_here(machines: ServedMachines) -> None:
    machines.deploy("--cloud-provider=clusterapi,karpenter", "--cluster-api-kubeconfig=/etc/management/kubeconfig")
    result = trellis_run("explain", "node", "node-of-big")
    assert result.exit_code == 1
    assert "name a file here with --cluster-api-kubeconfig" in _unwrap(result)
    assert "Node group big" in result.output


def test_a_provider_that_does_not_answer_makes_a_partial_answer(machines: ServedMachines) -> None:
    machines.serves_cluster_api = False
    result = trellis_run("explain", "node", "node-of-big", BOTH)
    assert (result.exit_code, "does not serve Machines of cluster.x-k8s.io" in _unwrap(result)) == (1, True)
    assert "Node group big" in result.output
    machines.serves_cluster_api = True
    machines.forbidden = (f"{MACHINES.rpartition('/namespaces')[0]}/machines", "/apis/karpenter.sh/v1/nodeclaims")
    result = trellis_run("explain", "node", "vm-1", "--cloud-provider=karpenter")
    assert (result.exit_code, "nodeclaims.karpenter.sh: " in result.output) == (1, True), result.output


def test_a_dump_explains_and_simulates_without_the_providers(machines: ServedMachines) -> None:
    live = trellis_run("explain", "pod", "import-1", BOTH)
    for options in ((), ("--anonymous",)):
        dumped = trellis_run("dump", BOTH, "--quiet", "-o", "dump.jsonl", *options)
        assert "NodeGroup 2" in dumped.stderr, dumped.stderr
        assert not machines.written
        [line] = [line for line in Path("dump.jsonl").read_text().splitlines() if line.startswith('{"kind":"rep')]
        assert ("fleet" in line) is not bool(options)
        assert ("vm-1" in line) is not bool(options)
        if not options:
            explained = trellis_run("explain", "pod", "import-1", "--dump", "dump.jsonl")
            assert _from(explained, "PLACEMENT") == _from(live, "PLACEMENT")
            continue
        groups = " ".join(read_groups_of(_explain_dumped(node)) for node in _list_dumped_nodes())
        sizes = re.findall(r"has (1 node \(minimum 0, maximum [0-9]+)", groups)
        assert sorted(sizes) == ["1 node (minimum 0, maximum 10", "1 node (minimum 0, maximum 2"], groups
    collected = read_dump(Path("dump.jsonl"))
    fleet = build_fleet_from_dump(collected, "dump", groups=read_node_groups(collected)).fleet
    assert sorted((pool.max_size, pool.count) for pool in fleet.pools) == [(2, 1), (10, 1)]


def _unwrap(result: Result) -> str:
    return " ".join(result.output.split())


def _from(result: Result, title: str) -> list[str]:
    lines = result.output.splitlines()
    return lines[lines.index(title) :]


def _explain_dumped(node: str) -> Result:
    return trellis_run("explain", "node", node, "--dump", "dump.jsonl")


def _list_dumped_nodes() -> list[str]:
    lines = (json.loads(line) for line in Path("dump.jsonl").read_text().splitlines())
    objects = (line["data"] for line in lines if line["kind"] == "object")
    return [document["metadata"]["name"] for document in objects if document["kind"] == "Node"]


@pytest.mark.usefixtures("machines")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "vpa", "web", BOTH), "only for a node, a Buffer and a pod that waits for a node"),
        (("explain", "node", "n1", "--dump", "x.jsonl", BOTH), "only for a cluster; a dump has its node groups"),
        (("dump", "-n", "shop", BOTH), "only for all namespaces; with -n a dump has no node groups"),
        (("explain", "node", "n1", "--cloud-provider=clusterap"), "did you mean clusterapi?"),
        (("explain", "node", "n1", BOTH, "--cluster-api-selector=pool in"), "--cluster-api-selector"),
    ],
)
def test_flags_without_effect_and_wrong_ones_are_refused(arguments: tuple[str, ...], message: str) -> None:
    result = trellis_run(*arguments)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


def test_the_flags_are_those_of_the_autoscaler() -> None:
    flags = {setting.parameter for setting in declared_settings(NodeGroupSettings)}
    assert flags == set(NODE_GROUP_PARAMETERS)
    assert flags <= {setting.parameter for setting in declared_settings(NodeControllerSettings)}
