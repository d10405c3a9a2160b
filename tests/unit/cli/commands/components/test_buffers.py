"""`trellis buffers` has the flags that all components have, and says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trellis.cli.main import main
from trellis.controllers.buffers.settings import LEASE, BufferControllerSettings, TranslationSettings
from trellis.runtime.settings.declarations import declared_settings

COMMON = {
    *("kubeconfig", "address", "v", "kube-api-qps", "kube-api-burst", "feature-gates", "leader-elect"),
    *("leader-elect-resource-name", "vpa-object-namespace", "read-only"),
}


def test_it_has_the_flags_that_all_components_have() -> None:
    assert {setting.name for setting in declared_settings(BufferControllerSettings)} >= COMMON


@pytest.mark.parametrize(
    "flag",
    [
        "--buffer-interval=0s",
        "--max-chunks-per-buffer=0",
        "--concurrent-writes=0",
        "--metrics-buffers=-1",
        "--node-class-labels=NodePool",
        "--node-class-labels=NodePool=not a label",
        "--max-allowed-cpu-boost=1u",
    ],
)
def test_a_flag_without_sense_is_refused_by_its_name(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["buffers", flag])
    assert ended.value.code == 2
    assert flag.partition("=")[0].removeprefix("--") in capsys.readouterr().err


def test_flags_become_the_figures_that_buffers_are_translated_by() -> None:
    settings = TranslationSettings(
        max_chunks_per_buffer=7, node_class_labels=("Pool=example.com/pool",), set_aside_target_kinds=("Rollout",)
    )
    figures = settings.figures()
    assert (figures.most_chunks, figures.set_aside) == (7, frozenset({"Rollout"}))
    assert figures.get_label("Pool") == "example.com/pool"
    assert figures.get_label("NodePool") == "karpenter.sh/nodepool"


def test_the_manifest_runs_it_with_its_lease_port_and_account() -> None:
    text = (Path(__file__).parents[5] / "deploy" / "buffers.yaml").read_text()
    documents = {document["kind"]: document for document in yaml.safe_load_all(text)}
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["command"][:2] == ["trellis", "buffers"]
    assert spec["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]
    assert f":{container['ports'][0]['containerPort']}" == BufferControllerSettings().health.address
    named = [rule.get("resourceNames") for rule in documents["Role"]["rules"]]
    assert [LEASE] in named
