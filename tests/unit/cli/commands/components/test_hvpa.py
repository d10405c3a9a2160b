"""`trellis hvpa` has the flags that all components have, and says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trellis.cli.main import main
from trellis.controllers.hvpa.settings import LEASE, HvpaControllerSettings
from trellis.runtime.settings.declarations import declared_settings

COMMON = {
    *("kubeconfig", "address", "v", "kube-api-qps", "kube-api-burst", "leader-elect"),
    *("leader-elect-resource-name", "vpa-object-namespace"),
}


def test_it_has_the_flags_that_all_components_have() -> None:
    assert {setting.name for setting in declared_settings(HvpaControllerSettings)} >= COMMON


@pytest.mark.parametrize("flag", ["--hvpa-interval=0s", "--ready-patience=-1s", "--concurrent-writes=0"])
def test_a_flag_without_sense_is_refused_by_its_name(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["hvpa", flag])
    assert ended.value.code == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_the_manifest_runs_it_with_its_lease_port_and_account() -> None:
    text = (Path(__file__).parents[5] / "deploy" / "hvpa.yaml").read_text()
    documents = {document["kind"]: document for document in yaml.safe_load_all(text)}
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["command"][:2] == ["trellis", "hvpa"]
    assert spec["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]
    assert f":{container['ports'][0]['containerPort']}" == HvpaControllerSettings().health.address
    named = [rule.get("resourceNames") for rule in documents["Role"]["rules"]]
    assert [LEASE] in named
