"""Parameters of recommenders: declared once, read, refused with field, value and rule."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValue, read_parameters
from trellis.core.recommend.recommenders.default import DefaultRecommender, read_default_settings
from trellis.core.recommend.settings import DefaultSettings

DECLARED = (
    Parameter("quantile", ParameterKind.NUMBER, "Which one.", 0.9, minimum=0, maximum=1),
    Parameter("days", ParameterKind.WHOLE, "How many.", 7, "days", minimum=1),
    Parameter("horizon", ParameterKind.DURATION, "How far ahead.", 3600.0, "seconds", minimum=60, maximum=86400),
    Parameter("weekends", ParameterKind.SWITCH, "Whether they differ.", False),
    Parameter("shape", ParameterKind.CHOICE, "Which one.", "daily", choices=("daily", "weekly")),
)
FIELD = "spec.recommenders[0].parameters"


def test_an_absent_value_is_the_process_default_or_the_declared_one() -> None:
    read = read_parameters(DECLARED, {"days": "3"}, {"quantile": 0.5})
    assert read.problems == ()
    assert read.values == {"quantile": 0.5, "days": 3, "horizon": 3600.0, "weekends": False, "shape": "daily"}


def test_every_kind_is_read_from_text() -> None:
    given = {"quantile": "0.95", "days": "14", "horizon": "1h30m", "weekends": "true", "shape": "weekly"}
    assert read_parameters(DECLARED, given).values == {
        "quantile": 0.95,
        "days": 14,
        "horizon": 5400.0,
        "weekends": True,
        "shape": "weekly",
    }


@pytest.mark.req("CR-07")
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("quantile", "1.5", f'{FIELD}[quantile]: Invalid value: "1.5": must be at most 1'),
        ("quantile", "nan", f'{FIELD}[quantile]: Invalid value: "nan": must be a number'),
        ("quantile", "1_0", f'{FIELD}[quantile]: Invalid value: "1_0": must be a number'),
        ("days", "0", f'{FIELD}[days]: Invalid value: "0": must be at least 1'),
        ("days", "1.5", f'{FIELD}[days]: Invalid value: "1.5": must be a whole number'),
        ("horizon", "30s", f'{FIELD}[horizon]: Invalid value: "30s": must be at least 1m0s'),
        ("horizon", "25h", f'{FIELD}[horizon]: Invalid value: "25h": must be at most 24h0m0s'),
        ("weekends", "1", f'{FIELD}[weekends]: Invalid value: "1": must be true or false'),
        ("shape", "hourly", f'{FIELD}[shape]: Invalid value: "hourly": must be one of daily, weekly'),
    ],
)
def test_an_invalid_value_is_reported_with_its_field_and_the_rule(name: str, text: str, message: str) -> None:
    assert read_parameters(DECLARED, {name: text}).message == message


@pytest.mark.req("CR-07")
def test_an_unknown_parameter_is_reported_with_the_declared_ones() -> None:
    (problem,) = read_parameters(DECLARED, {"quantil": "0.5"}).problems
    assert str(problem).startswith(f"{FIELD}[quantil]: Unknown field: the recommender has no such parameter")
    assert problem.suggestion == "quantile"


def test_all_that_is_wrong_is_reported_at_once() -> None:
    assert len(read_parameters(DECLARED, {"days": "x", "shape": "x", "y": "x"}).problems) == 3


def test_text_that_is_no_text_is_refused_too() -> None:
    (problem,) = read_parameters(DECLARED, msgspec.convert({"days": 3}, dict)).problems
    assert problem.rule == "must be text; put it in quotes"


@given(
    st.floats(0, 1),
    st.integers(1, 10**9),
    st.integers(60, 86400),
    st.booleans(),
    st.sampled_from(["daily", "weekly"]),
)
def test_a_value_that_is_shown_is_read_as_itself(
    quantile: float, days: int, horizon: int, weekends: bool, shape: str
) -> None:
    values: dict[str, ParameterValue] = {"days": days, "horizon": float(horizon), "weekends": weekends, "shape": shape}
    shown = {parameter.name: parameter.format(values[parameter.name]) for parameter in DECLARED[1:]}
    read = read_parameters(DECLARED, shown | {"quantile": repr(quantile)})
    assert read.problems == ()
    assert read.values == values | {"quantile": quantile}


def test_the_default_recommender_declares_upstreams_flags() -> None:
    figures = DefaultSettings(target_cpu_percentile=0.8, confidence_interval_memory=7200.0)
    recommender = DefaultRecommender(figures)
    assert {parameter.name for parameter in recommender.parameters} == {
        "target-cpu-percentile",
        "target-memory-percentile",
        "recommendation-lower-bound-cpu-percentile",
        "recommendation-upper-bound-cpu-percentile",
        "recommendation-lower-bound-memory-percentile",
        "recommendation-upper-bound-memory-percentile",
        "recommendation-margin-fraction",
        "confidence-interval-cpu",
        "confidence-interval-memory",
        "pod-recommendation-min-cpu-millicores",
        "pod-recommendation-min-memory-mb",
    }
    assert read_default_settings(read_parameters(recommender.parameters, {}).values) == figures
    changed = read_parameters(recommender.parameters, {"confidence-interval-cpu": "12h"})
    assert read_default_settings(changed.values).confidence_interval_cpu == 43200.0
    assert all(parameter.meaning.endswith(".") for parameter in recommender.parameters)
    assert all(not math.isnan(float(parameter.default)) for parameter in recommender.parameters)
