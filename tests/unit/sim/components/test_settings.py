"""Settings of the components by their flags."""

from __future__ import annotations

import pytest

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.runtime.settings.declarations import SettingDeclaration, declared_settings
from trellis.sim.components.objects import read_objects
from trellis.sim.components.settings import FLAGS, SimulationSettings, read_flags


def flags_of_components() -> dict[str, SettingDeclaration]:
    components = (
        AdmissionSettings,
        HvpaControllerSettings,
        NodeControllerSettings,
        RecommenderSettings,
        UpdaterSettings,
    )
    return {setting.name: setting for component in components for setting in declared_settings(component)}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_setting_has_the_default_of_the_flag_of_its_name(flag: str) -> None:
    known = flags_of_components()[flag]
    group, field, read = FLAGS[flag]
    ours = getattr(getattr(SimulationSettings(), group), field)
    assert ours == (read(known.show(known.default)) if known.default is not None else None)


def test_a_flag_changes_its_figure_and_no_other() -> None:
    figures = read_flags({"min-replicas": "1", "evictions-per-hour": "4", "confidence-interval-cpu": "12h"})
    assert (figures.updates.min_replicas, figures.updates.hourly) == (1, 4)
    assert figures.estimates.confidence_interval_cpu == 43200.0
    assert figures.usage == SimulationSettings().usage


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("min-replica", "1", "did you mean min-replicas?"),
        ("min-replicas", "0", "min-replicas must be at least 1"),
        ("min-replicas", "two", "min-replicas must be a whole number"),
        ("target-cpu-percentile", "1.5", "target-cpu-percentile must be between 0 and 1"),
        ("humanize-memory", "perhaps", "humanize-memory must be true or false"),
        ("hpa-conflict", "fight", "hpa-conflict must be one of warn, hold"),
        ("expander", "price,dice", "expander must be one or more of"),
        ("status-max-age", "soon", "status-max-age"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_name(flag: str, value: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_flags({flag: value})
    assert words in str(caught.value)


def test_objects_that_have_no_say_or_come_twice_are_refused() -> None:
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a", "namespace": "shop"}}
    assert read_objects([limit_range], 0.0).limits[0].metadata.generation == 1
    with pytest.raises(InvalidInput, match="two objects of kind LimitRange"):
        read_objects([limit_range, limit_range], 0.0)
    with pytest.raises(InvalidInput, match="must be one of VerticalPodAutoscaler"):
        read_objects([{"kind": "Secret"}], 0.0)
