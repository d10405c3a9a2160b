"""Feature gates are read as Kubernetes reads them, and are on unless somebody says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.feature_gates import FeatureGates
from trellis.base.errors import InvalidInput
from trellis.runtime.settings.feature_gates import FEATURE_GATES, format_gates, parse_gates

OFF = FeatureGates(cpu_startup_boost=False, in_place=False, per_vpa_config=False)


def test_every_gate_is_on_unless_named() -> None:
    assert parse_gates("") == FeatureGates() == FeatureGates(cpu_startup_boost=True, in_place=True, per_vpa_config=True)


def test_every_field_of_the_gates_has_a_name() -> None:
    assert {gate.field for gate in FEATURE_GATES} == set(FeatureGates.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("CPUStartupBoost=false", FeatureGates(cpu_startup_boost=False)),
        ("InPlace=false,PerVPAConfig=0", FeatureGates(in_place=False, per_vpa_config=False)),
        (" InPlace = f , ", FeatureGates(in_place=False)),
        ("InPlace=false,InPlace=true", FeatureGates()),
        ("AllAlpha=false", OFF),
        ("AllAlpha=false,InPlace=true", FeatureGates(cpu_startup_boost=False, per_vpa_config=False)),
        ("InPlace=true,AllAlpha=false", FeatureGates(cpu_startup_boost=False, per_vpa_config=False)),
        ("AllBeta=false", FeatureGates()),
    ],
)
def test_text_switches_gates(text: str, gates: FeatureGates) -> None:
    assert parse_gates(text) == gates


def test_a_map_switches_gates() -> None:
    assert parse_gates({"InPlace": False, "AllBeta": "true"}) == FeatureGates(in_place=False)


@given(st.builds(FeatureGates, st.booleans(), st.booleans(), st.booleans()))
def test_gates_survive_being_written(gates: FeatureGates) -> None:
    assert parse_gates(format_gates(gates)) == gates


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("InPlce=true", r'"InPlce": is not a feature gate \(did you mean InPlace\?\)'),
        ("allalpha=true", "did you mean AllAlpha"),
        (
            "NativeSidecar=true",
            "is not a feature gate; the gates are CPUStartupBoost, InPlace, PerVPAConfig, AllAlpha, AllBeta",
        ),
        ("InPlaceOrRecreate=true", "was removed in VPA 1.7, because the mode is always on; remove it"),
        ("InPlace", "must be written like InPlace=true"),
        ("InPlace=yes", '"InPlace=yes": must be true or false'),
        (["InPlace"], "must be written like CPUStartupBoost=true,InPlace=false"),
    ],
)
def test_an_unknown_feature_gate_is_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_gates(value)
