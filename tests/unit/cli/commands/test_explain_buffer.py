"""`trellis explain buffer` as a user runs it, from a dump."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from support.builders.collected_clusters import Cluster, spare
from trellis.cli.main import trellis
from trellis.core.cluster.dump_format import DumpedComponent


def explain(cluster: Cluster, folder: Path, *arguments: str) -> Result:
    file = folder / "dump.jsonl"
    file.write_bytes(b"".join(cluster.lines()))
    return CliRunner().invoke(trellis, ["explain", "buffer", *arguments, "--dump", str(file)])


def test_a_buffer_is_explained(tmp_path: Path) -> None:
    result = explain(spare(), tmp_path, "web")
    assert result.exit_code == 0, result.output
    assert "It keeps spare capacity for 2 further pods of Deployment web" in result.output
    assert "NOT OBSERVED" not in result.output


def test_json_is_the_structure(tmp_path: Path) -> None:
    document = json.loads(explain(spare(), tmp_path, "shop/web", "--json").output)
    assert (document["kind"], document["buffer"]["chunks"], document["buffer"]["limitedBy"]) == ("buffer", 2, ["team"])


def test_the_flags_of_the_controller_count(tmp_path: Path) -> None:
    cluster = spare()
    flags = {"max-chunks-per-buffer": "1", "set-aside-target-kinds": "NodePool,Rollout"}
    cluster.components = [DumpedComponent("buffers", "kube-system", "trellis-buffers", flags=flags)]
    assert "ChunksTruncated: limited from 3 to 1 chunk," in explain(cluster, tmp_path, "web").output
    assert "TargetKindExcluded" in explain(cluster, tmp_path, "spot").output


def test_a_label_of_a_class_may_be_set(tmp_path: Path) -> None:
    cluster = spare()
    cluster.objects["Buffer", ("shop", "spot")]["spec"]["targetRef"]["kind"] = "Pool"
    assert "NodeClassUnknown" in explain(cluster, tmp_path, "spot").output
    flags = {"node-class-labels": "Pool=karpenter.sh/nodepool"}
    cluster.components = [DumpedComponent("buffers", "kube-system", "trellis-buffers", flags=flags)]
    assert "It keeps 3 chunks of spare capacity on nodes of Pool spot" in explain(cluster, tmp_path, "spot").output


def test_a_flag_that_cannot_be_read_stands_for_its_default_and_others_keep_theirs(tmp_path: Path) -> None:
    cluster = spare()
    flags = {"max-chunks-per-buffer": "many"}
    cluster.components = [DumpedComponent("buffers", "kube-system", "trellis-buffers", flags=flags)]
    result = explain(cluster, tmp_path, "web")
    assert "It keeps spare capacity for 2 further pods" in result.output
    assert (result.exit_code, "FlagUnreadable" in result.output) == (1, True)


def test_a_namespace_that_has_a_buffer_alone_is_found(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.add_buffer("web")
    assert "TargetNotFound" in explain(cluster, tmp_path, "web").output
