"""Presets for all VPAs, and declarations of recommenders."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.vpas import Stub, World
from trellis.base.errors import InvalidInput
from trellis.core.recommend.parameters import Parameter, ParameterKind
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.registry import apply_preset, read_presets
from trellis.core.recommend.validation import UnavailableRecommender, read_declaration

MARGIN = Parameter("margin", ParameterKind.NUMBER, "On top.", 0.1, "fraction", 0.0, 2.0)


@pytest.mark.parametrize(
    ("texts", "names", "result"),
    [
        (("margin=0.2",), ("default",), {"default": {"margin": "0.2"}}),
        (
            ("a.margin=0.2", "b.margin = 0.3", "a.weeks=2"),
            ("a", "b"),
            {"a": {"margin": "0.2", "weeks": "2"}, "b": {"margin": "0.3"}},
        ),
        (("default.margin=0.2", "margin=0.3"), ("default",), {"default": {"margin": "0.3"}}),
        (("my.own.margin=a=b",), ("my.own", "default"), {"my.own": {"margin": "a=b"}}),
        ((), ("default",), {}),
    ],
)
def test_presets_are_read_by_recommender(texts: tuple[str, ...], names: tuple[str, ...], result: Any) -> None:
    assert read_presets(texts, names) == result


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("margin", "must be written as parameter=value, or as recommender.parameter=value"),
        ("=1", "must be written as parameter=value"),
        ("margin=1", "name the recommender of the parameter, as in a.margin; the recommenders are a, b"),
        ("c.margin=1", "there is no recommender c here; served are a, b; add it to --recommender-name"),
    ],
)
def test_an_ambiguous_preset_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_presets([text], ("a", "b"))
    assert (refused.value.value, refused.value.rule[: len(rule)]) == (text, rule)


def test_a_preset_overrides_the_declared_default_and_a_vpa_overrides_the_preset() -> None:
    shop = World()
    shop.recommenders = {"default": apply_preset(DefaultRecommender(), {"recommendation-margin-fraction": "1"})}
    shop.apply("web")
    shop.apply("own", recommenders=[{"name": "default", "parameters": {"recommendation-margin-fraction": "0"}}])
    for name in ("web", "own"):
        shop.run_pods(name)
        shop.ingest_usage(cpu=1.0, vpa=name)
    shop.run()
    assert shop.target("web")["cpu"] == "2032m"
    assert shop.target("own")["cpu"] == "1016m"


@pytest.mark.parametrize(
    ("given", "value", "rule"),
    [
        (
            {"margins": "1"},
            "margins",
            "is not a parameter of this recommender (did you mean margin?); its parameters are margin",
        ),
        ({"margin": "lots"}, "margin=lots", "must be a number"),
        ({"margin": "3"}, "margin=3", "must be at most 2"),
    ],
)
def test_an_undeclared_parameter_is_refused(given: dict[str, str], value: str, rule: str) -> None:
    stub = Stub("default", (1.0, 2.0, 3.0))
    stub.parameters = (MARGIN,)  # type: ignore[assignment]
    with pytest.raises(InvalidInput) as refused:
        apply_preset(stub, given)
    assert (refused.value.value, refused.value.rule) == (value, rule)


def test_without_presets_the_recommender_is_unchanged() -> None:
    recommender = DefaultRecommender()
    assert apply_preset(recommender, {}) is recommender


def test_an_unavailable_recommender_accepts_any_parameters_and_fails_with_the_reason() -> None:
    shop = World()
    shop.recommenders = {
        "default": UnavailableRecommender("default", "recommender default cannot be used: it is on holiday")
    }
    shop.apply("web", recommenders=[{"name": "default", "parameters": {"anything": "goes"}}])
    shop.run_pods()
    shop.ingest_usage()
    shop.run()
    assert shop.true_conditions() == {"RecommenderFailed"}
    message = shop.conditions()["RecommenderFailed"]["message"]
    assert message == "recommender default cannot be used: it is on holiday"


def test_the_declaration_of_the_default_recommender_is_valid() -> None:
    declared = read_declaration(DefaultRecommender())
    assert not declared.needs_history
    assert len(declared.parameters) == 11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Not_this"}, "the name of the parameter 'Not_this' is not lower-case with dashes"),
        ({"meaning": ""}, "the parameter margin has no meaning"),
        ({"default": "much"}, "the default of the parameter margin is not a number"),
        ({"default": True}, "the default of the parameter margin is not a number"),
        ({"default": 7.0}, "the default of the parameter margin must be at most 2"),
        ({"choices": ("a",)}, "the parameter margin must have choices if, and only if, it is a choice"),
        ({"kind": ParameterKind.CHOICE}, "the parameter margin must have choices if, and only if, it is a choice"),
    ],
)
def test_an_invalid_declaration_is_refused(change: dict[str, Any], message: str) -> None:
    stub = Stub("default", (1.0, 2.0, 3.0))
    stub.parameters = (msgspec.structs.replace(MARGIN, **change),)  # type: ignore[assignment]
    with pytest.raises(InvalidInput, match="is not a recommender") as refused:
        read_declaration(stub)
    assert message in refused.value.rule


def test_everything_that_is_missing_is_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_declaration(object())
    for part in ("`name`", "`needs_history`", "`estimate`", "`parameters`"):
        assert part in refused.value.rule


def test_a_parameter_is_declared_once() -> None:
    stub = Stub("default", (1.0, 2.0, 3.0))
    stub.parameters = (MARGIN, MARGIN)  # type: ignore[assignment]
    with pytest.raises(InvalidInput, match="declares the parameter margin twice"):
        read_declaration(stub)


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (MARGIN, "number, fraction, 0 to 2"),
        (Parameter("x", ParameterKind.DURATION, "M.", 60.0, "seconds", 60.0), "duration, at least 1m0s"),
        (Parameter("x", ParameterKind.WHOLE, "M.", 1, maximum=3), "whole number, at most 3"),
        (Parameter("x", ParameterKind.CHOICE, "M.", "a", choices=("a", "b")), "choice: a, b"),
        (Parameter("x", ParameterKind.SWITCH, "M.", True), "true or false"),
    ],
)
def test_accepted_values_are_described_in_words(parameter: Parameter, text: str) -> None:
    assert parameter.accepts == text
