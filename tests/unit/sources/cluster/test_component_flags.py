"""Flags of a component, wherever they are set."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from support.virtual_time import run
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.sources.cluster.component_flags import CommandContainer, ConfigVolume, read_flags

VOLUME = {"name": "config", "configMap": {"name": "trellis-config"}}
CONFIGURATION = {
    "apiVersion": "config.trellis.x-k8s.io/v1alpha1",
    "kind": "TrellisConfiguration",
    "components": ["recommender", "updater"],
    "leaderElect": False,
    "updater": {"freezeConfigMap": "ops/stop", "minReplicas": 3},
}


def flags(*args: str, configuration: object = None, **variables: str) -> Mapping[str, str]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    container = convert_object({"args": ["run", *args], "env": env}, CommandContainer)

    async def read(name: str) -> ConfigMap | None:
        if configuration is None or name != "trellis-config":
            return None
        text = configuration if isinstance(configuration, str) else yaml.safe_dump(configuration)
        return ConfigMap(data={"config.yaml": text})

    return run(read_flags(container, [convert_object(VOLUME, ConfigVolume)], read))


def test_fields_of_a_configuration_file_are_flags() -> None:
    found = flags("--config=/etc/trellis/config.yaml", configuration=CONFIGURATION)
    assert found["components"] == "recommender,updater"
    assert (found["leader-elect"], found["updater.freeze-config-map"]) == ("false", "ops/stop")
    assert found["updater.min-replicas"] == "3"


def test_a_flag_wins_over_a_variable_and_that_over_the_file() -> None:
    configured = {"configuration": CONFIGURATION, "TRELLIS_COMPONENTS": "hvpa"}
    assert flags("--config=x", **configured)["components"] == "hvpa"  # type: ignore[arg-type]
    assert flags("--config=x", "--components=nodes", **configured)["components"] == "nodes"  # type: ignore[arg-type]


def test_a_variable_of_a_component_is_its_flag_in_either_process() -> None:
    found = flags(TRELLIS_UPDATER_INTERVAL="30s")
    assert (found["updater.interval"], found["updater-interval"]) == ("30s", "30s")


def test_without_the_flag_no_file_is_read_and_one_that_is_no_configuration_says_nothing() -> None:
    assert "components" not in flags(configuration=CONFIGURATION)
    assert flags("--config=x", configuration="kind: Other\n") == {"config": "x"}
    assert flags("--config=x", configuration="]broken") == {"config": "x"}
