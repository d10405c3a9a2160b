from __future__ import annotations

from collections.abc import Mapping

from support.builders.collected_clusters import Cluster
from trellis.api.feature_gates import FeatureGates
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.core.explain import CollectedSettings
from trellis.sim.dump.component_settings import read_components


def read_settings(**flags: Mapping[str, str]) -> CollectedSettings:
    cluster = Cluster()
    cluster.components = [DumpedComponent(name, "kube-system", name, flags=flag) for name, flag in flags.items()]
    return read_components(cluster.collected())


def test_without_flags_everything_is_as_by_default() -> None:
    assert read_settings() == CollectedSettings()


def test_flags_of_all_components_are_read() -> None:
    read = read_settings(
        recommender={"target-cpu-percentile": "0.5", "recommender-name": "default,fast", "set": "fast.lookback=1h"},
        updater={"eviction-tolerance": "0.25", "admission-controller-status-lease-timeout": "5m", "v": "4"},
    )
    assert read.estimates.target_cpu_percentile == 0.5
    assert read.updates.eviction_tolerance == 0.25
    assert (read.names, read.presets) == (("default", "fast"), {"fast": {"lookback": "1h"}})
    assert read.admission_timeout == 300
    assert (read.with_flags, read.problems) == (("recommender", "updater"), ())


def test_gates_reach_every_component_they_concern() -> None:
    read = read_settings(updater={"feature-gates": "InPlace=false,CPUStartupBoost=false,Other=true"})
    assert read.gates == FeatureGates(cpu_startup_boost=False, in_place=False)
    assert (read.updates.in_place, read.updates.startup_boost, read.boosts.enabled) == (False, False, False)


def test_a_flag_that_cannot_be_read_is_named_and_its_default_stands() -> None:
    read = read_settings(updater={"min-replicas": "many", "eviction-tolerance": "0.25"})
    assert read.updates.min_replicas == CollectedSettings().updates.min_replicas
    assert read.updates.eviction_tolerance == 0.25
    assert len(read.problems) == 1
    assert "--min-replicas" in read.problems[0]
