"""Parses and formats `--feature-gates`, with upstream's names.

`CPUStartupBoost=false,AllBeta=true` is read as Kubernetes reads it: a gate that is named wins over `AllAlpha` and
`AllBeta`, wherever it stands, and of two values for one gate the last counts. Unlike upstream, Trellis enables every
gate by default; `AllAlpha=false` gives upstream's defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name

# What Go's strconv.ParseBool takes, and with it every flag of upstream that is true or false.
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FeatureStage(StrEnum):
    """The stage of a feature upstream, which `AllAlpha` and `AllBeta` select by."""

    ALPHA = "Alpha"
    BETA = "Beta"


class FeatureGate(msgspec.Struct, frozen=True):
    """One gate: its name, the field of `FeatureGates` it sets, its stage upstream, and its meaning."""

    name: str
    field: str
    stage: FeatureStage
    meaning: str


FEATURE_GATES: Final = (
    FeatureGate(
        "CPUStartupBoost", "cpu_startup_boost", FeatureStage.ALPHA, "VPAs may boost the CPU of starting containers."
    ),
    FeatureGate("InPlace", "in_place", FeatureStage.ALPHA, "VPAs may have the update mode `InPlace`."),
    FeatureGate(
        "PerVPAConfig",
        "per_vpa_config",
        FeatureStage.ALPHA,
        "VPAs may set the handling of OOM kills and memory intervals.",
    ),
)
_BY_NAME: Final = tuple(gate.name for gate in FEATURE_GATES)
_BY_STAGE: Final = tuple(f"All{stage}" for stage in FeatureStage)
# Gates of earlier releases that users may still pass, with what to do about them.
_REMOVED: Final = {"InPlaceOrRecreate": "was removed in VPA 1.7, because the mode is always on; remove it"}


def parse_gates(value: object) -> FeatureGates:
    """The gates that text or a map describes; unmentioned gates are enabled."""
    requested: dict[str, bool] = {}
    for name, text in _split_pairs(value):
        if name not in _BY_NAME and name not in _BY_STAGE:
            raise InvalidInput(name, _describe_unknown(name))
        if text not in BOOLEANS:
            raise InvalidInput(f"{name}={text}", "must be true or false")
        requested[name] = BOOLEANS[text]
    by_stage = {gate.field: requested[f"All{gate.stage}"] for gate in FEATURE_GATES if f"All{gate.stage}" in requested}
    by_name = {gate.field: requested[gate.name] for gate in FEATURE_GATES if gate.name in requested}
    return FeatureGates(**{**by_stage, **by_name})


def format_gates(gates: FeatureGates) -> str:
    """All gates as they are written in a flag."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in gates_as_map(gates).items())


def gates_as_map(gates: FeatureGates) -> dict[str, bool]:
    """All gates as they are written in a file."""
    return {gate.name: getattr(gates, gate.field) for gate in FEATURE_GATES}


def list_gate_names() -> tuple[str, ...]:
    """The names that may be set: those of gates, and those that select gates by their stage."""
    return (*_BY_NAME, *_BY_STAGE)


def _split_pairs(value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, on in value.items():
            yield str(name), str(on).lower() if isinstance(on, bool) else str(on)
        return
    if not isinstance(value, str):
        raise InvalidInput(value, "must be written like CPUStartupBoost=true,InPlace=false")
    for part in value.split(","):
        name, equals, text = part.partition("=")
        if not part.strip():
            continue
        if not equals:
            raise InvalidInput(part.strip(), "must be written like InPlace=true")
        yield name.strip(), text.strip()


def _describe_unknown(name: str) -> str:
    if name in _REMOVED:
        return _REMOVED[name]
    names = [*_BY_NAME, *_BY_STAGE]
    guess = suggest_name(name, names)
    return (
        f"is not a feature gate (did you mean {guess}?)"
        if guess
        else f"is not a feature gate; the gates are {', '.join(names)}"
    )
