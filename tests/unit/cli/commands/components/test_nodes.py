"""`trellis nodes` has the flags that people know from other components, and says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from trellis.base.quantities import Quantity
from trellis.cli.main import main
from trellis.controllers.nodes.settings import LEASE, NodeControllerSettings, ScaleDownFlags, ScaleUpFlags
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.transient_taints import TransientTaints
from trellis.providers.kwok import CONFIG_MAP
from trellis.runtime.settings.declarations import declared_settings

COMMON = {
    *("kubeconfig", "address", "v", "kube-api-qps", "kube-api-burst", "feature-gates", "leader-elect"),
    *("leader-elect-resource-name", "vpa-object-namespace", "read-only"),
}
CLUSTER_AUTOSCALER = {
    *("scan-interval", "cloud-provider", "expander", "max-nodes-total", "max-node-provision-time"),
    *("balance-similar-node-groups", "scale-down-enabled", "scale-down-unneeded-time", "scale-down-delay-after-add"),
    *("scale-down-utilization-threshold", "skip-nodes-with-system-pods", "max-graceful-termination-sec"),
    *("expendable-pods-priority-cutoff", "max-drain-parallelism", "node-delete-delay-after-taint"),
    *("daemonset-eviction-for-occupied-nodes", "daemonset-eviction-for-empty-nodes", "max-bulk-soft-taint-count"),
    *("startup-taint", "status-taint"),
}


def test_it_has_the_flags_that_all_components_have_and_those_that_people_know() -> None:
    assert {setting.name for setting in declared_settings(NodeControllerSettings)} >= COMMON | CLUSTER_AUTOSCALER


@pytest.mark.parametrize(
    "flag",
    [
        "--scan-interval=0s",
        "--provider-timeout=0s",
        "--expander=dearest",
        "--cloud-provider=moon",
        "--kwok-node-groups=groups",
        "--scale-down-utilization-threshold=1.5",
        "--max-drain-parallelism=0",
        "--max-nodes-total=-1",
        "--max-bulk-soft-taint-count=-1",
    ],
)
def test_a_flag_without_sense_is_refused_by_its_name(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nodes", flag])
    assert ended.value.code == 2
    assert flag.partition("=")[0].removeprefix("--") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "rule"),
    [(None, "cannot be read"), ("max-chunks: 3", "max-chunks"), ("max-chunks-per-buffer: 0", "max-chunks-per-buffer")],
)
def test_settings_of_buffers_that_make_no_sense_are_refused(
    text: str | None, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "buffers.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["nodes", f"--with-buffers={file}"])
    assert ended.value.code == 2
    assert rule in capsys.readouterr().err


def test_buffers_beside_it_do_not_go_with_a_configuration_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n")
    with pytest.raises(SystemExit) as ended:
        main(["nodes", "--with-buffers=buffers.yaml", f"--config={file}"])
    assert ended.value.code == 2
    assert "use trellis run --components=nodes,buffers --config=FILE" in capsys.readouterr().err


def test_without_flags_plans_are_made_by_the_figures_of_the_core() -> None:
    assert ScaleUpFlags().figures() == ScaleUpSettings()
    assert ScaleDownFlags().figures(ScaleUpSettings()) == ScaleDownSettings()


def test_every_flag_reaches_the_plans() -> None:
    up = ScaleUpFlags(
        expander=("price",), max_nodes_total=7, cores_total=8, memory_total=Quantity.parse("1Gi")
    ).figures()
    assert (up.expanders, up.max_nodes_total, up.cores_total, up.memory_total) == (("price",), 7, 8, 2**30)
    unusual = msgspec.structs.replace(ScaleDownFlags(), max_drain_parallelism=3, skip_nodes_with_local_storage=False)
    down = unusual.figures(ScaleUpSettings(max_node_provision_seconds=60.0))
    assert (down.max_drain_parallelism, down.skip_nodes_with_local_storage) == (3, False)
    assert down.max_node_provision_seconds == 60


def test_flags_about_taints_and_daemon_sets_reach_the_plans() -> None:
    up = ScaleUpFlags(startup_taint=("agent", "driver"), status_taint=("slow",)).figures()
    down = ScaleDownFlags(
        max_bulk_soft_taint_count=3,
        daemonset_eviction_for_occupied_nodes=False,
        daemonset_eviction_for_empty_nodes=True,
    ).figures(up)
    assert up.transient_taints == down.transient_taints == TransientTaints(("agent", "driver"), ("slow",))
    assert down.max_bulk_soft_taint_count == 3
    assert not down.daemonset_eviction_for_occupied_nodes
    assert down.daemonset_eviction_for_empty_nodes


def test_the_manifest_runs_it_with_its_lease_port_account_and_config_map() -> None:
    text = (Path(__file__).parents[5] / "deploy" / "nodes.yaml").read_text()
    documents = {document["kind"]: document for document in yaml.safe_load_all(text)}
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["command"][:2] == ["trellis", "nodes"]
    assert spec["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]
    assert f":{container['ports'][0]['containerPort']}" == NodeControllerSettings().health.address
    named = [rule.get("resourceNames") for rule in documents["Role"]["rules"]]
    assert [LEASE] in named
    assert [CONFIG_MAP.partition("/")[2]] in named
