"""What a node autoscaler decided on a real control plane is decided again from its recording, byte for byte."""

from __future__ import annotations

from pathlib import Path

from support.cluster.nodes import QUICK, NodeGroups, Start
from testbed.waiting import until
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay


def test_a_replay_adds_and_removes_the_recorded_nodes(
    namespace: str, node_groups: NodeGroups, nodes: Start, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.jsonl.gz"
    node_groups.declare()
    controller = nodes(namespace, *QUICK, f"--record={file}")
    node_groups.deploy("web", 2, cpu="1500m")
    until("the pods to run", lambda: len(node_groups.running()) == 2)
    node_groups.scale("web", 0)
    until("the nodes to go", lambda: not node_groups.nodes())
    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, no differences"
    result = b"".join(read_recording(file))
    assert all(word in result for word in (b"OrderedForPods", b"NodeTainted", b"ReleaseNode"))
