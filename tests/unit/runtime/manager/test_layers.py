"""Settings of a process of several components: shared ones, those of one component, and which value wins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.runtime.manager.layers import LoadedProcess, SettingTypes, environment_layer, flags_layer, load_process

TYPES: SettingTypes = {"updater": UpdaterSettings, "hvpa": HvpaControllerSettings}


def load(environment: Mapping[str, str] = MappingProxyType({}), /, **flags: str) -> LoadedProcess:
    given: dict[str, Any] = {"components": ("updater,hvpa",), **flags}
    return load_process(TYPES, flags_layer(TYPES, given), environment_layer(TYPES, environment))


def updater(loaded: LoadedProcess) -> UpdaterSettings:
    settings: UpdaterSettings = loaded.components["updater"].settings
    return settings


def hvpa(loaded: LoadedProcess) -> HvpaControllerSettings:
    settings: HvpaControllerSettings = loaded.components["hvpa"].settings
    return settings


def test_a_shared_value_holds_for_all_and_a_value_for_one_for_that_one() -> None:
    loaded = load(read_only="true", hvpa_read_only="false", updater_min_replicas="1", vpa_object_namespace="shop")
    assert (updater(loaded).access.read_only, hvpa(loaded).access.read_only) == (True, False)
    assert updater(loaded).disruption.min_replicas == 1
    assert updater(loaded).scope.vpa_object_namespace == hvpa(loaded).scope.vpa_object_namespace == ("shop",)


def test_flags_win_over_variables_and_within_each_the_value_for_one_component_wins() -> None:
    variables = {
        "TRELLIS_HVPA_HVPA_INTERVAL": "20s",
        "TRELLIS_UPDATER_READ_ONLY": "true",
        "TRELLIS_KUBE_API_QPS": "7",
        "TRELLIS_UPDATER_KUBE_API_QPS": "8",
    }
    loaded = load(variables, read_only="false")
    assert hvpa(loaded).loop.hvpa_interval == Duration.from_seconds(20)
    assert updater(loaded).access.read_only is False
    assert (updater(loaded).access.kube_api_qps, hvpa(loaded).access.kube_api_qps) == (8, 7)
    assert loaded.components["updater"].origins["kube-api-qps"] == ("environment variable TRELLIS_UPDATER_KUBE_API_QPS")


def test_components_elect_leaders_each_by_its_own_lease_unless_told_otherwise() -> None:
    loaded = load(leader_elect_resource_namespace="trellis", hvpa_leader_elect="false")
    leases = [
        (own.leader.leader_elect, own.leader.leader_elect_resource_namespace, own.leader.leader_elect_resource_name)
        for own in (updater(loaded), hvpa(loaded))
    ]
    assert leases == [(True, "trellis", "vpa-updater"), (False, "trellis", "trellis-hvpa")]
    assert "leader-elect" not in loaded.components["updater"].origins


def test_a_flag_of_a_component_that_does_not_run_is_refused_and_a_variable_is_not() -> None:
    load({"TRELLIS_HVPA_HVPA_INTERVAL": "20s"}, components="updater")
    with pytest.raises(InvalidInput, match=r"flag --hvpa\.hvpa-interval: hvpa is not among .* updater"):
        load(components="updater", hvpa_hvpa_interval="20s")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"updater_min_replicas": "none"}, r'"none": flag --updater\.min-replicas: must be a whole number'),
        ({"leader_elect_lease_duration": "1s"}, r"flag --leader-elect-lease-duration: must be longer"),
        ({"updater_leader_elect_lease_duration": "1s"}, r"flag --updater\.leader-elect-lease-duration: must be longer"),
    ],
)
def test_an_invalid_value_is_named_by_its_flag(flags: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load(**flags)
