"""What a node autoscaler decided on a real control plane is decided again from its recording, byte for byte."""

from __future__ import annotations

from pathlib import Path

from support.cluster.nodes import QUICK, Start, Yard
from testbed.waiting import until
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay


def test_nodes_that_came_and_went_come_and_go_again_in_a_replay(
    namespace: str, yard: Yard, nodes: Start, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.jsonl.gz"
    yard.declare()
    controller = nodes(namespace, *QUICK, f"--record={file}")
    yard.deploy("web", 2, cpu="1500m")
    until("the pods to run", lambda: len(yard.running()) == 2)
    yard.scale("web", 0)
    until("the nodes to go", lambda: not yard.nodes())
    controller.process.stop()
    report = replay(read_recording(file))
    assert str(report) == f"{report.decisions} decisions, all the same"
    result = b"".join(read_recording(file))
    assert all(word in result for word in (b"OrderedForPods", b"NodeMarked", b"ReleaseNode"))
