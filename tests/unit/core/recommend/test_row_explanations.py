"""Explanations of rows by recommenders, for each container."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.worlds.vpas import NAMESPACE, Stub, World
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.validation import find_explanation_problem

GOOD = (500.0, 1000.0, 2000.0)


class Talkative(Stub):
    """Says of each row which container it is, and at which place it was asked about."""

    def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
        result = super().estimate(rows, values, now)
        names = [key.container for key in rows.keys]
        places = np.arange(len(rows), dtype=np.float64)
        return Estimates(result.bounds, explanation={"container": names, "place": places})


def test_each_container_has_its_estimates_and_its_recommender() -> None:
    shop = World(Talkative("default", GOOD), Talkative("other", GOOD), Stub("silent", GOOD))
    shop.apply("web")
    shop.apply("db", recommenders=[{"name": "other"}])
    shop.apply("mute", recommenders=[{"name": "silent"}])
    for name, containers in (("web", ("app", "proxy")), ("db", ("main",)), ("mute", ("app",))):
        shop.run_pods(name, *containers)
        shop.ingest_usage(vpa=name)
    result = shop.decide()
    explanations = {(item.key.vpa, item.key.container): item for item in result.explain_all()}
    assert {key: item.recommender for key, item in explanations.items()} == {
        ("web", "app"): "default",
        ("web", "proxy"): "default",
        ("db", "main"): "other",
        ("mute", "app"): "silent",
    }
    assert all(item.explanation["container"] == key[1] for key, item in explanations.items() if key[0] != "mute")
    assert {item.explanation["place"] for item in result.explain_vpa(NAMESPACE, "web")} == {0.0, 1.0}
    assert explanations["mute", "app"].explanation == {}


def test_of_a_recommender_that_failed_nothing_is_reported() -> None:
    talkative = Talkative("default", GOOD)
    shop = World(talkative)
    shop.apply()
    shop.run_pods()
    shop.ingest_usage()
    talkative.error = ValueError("no")
    [result] = shop.decide().explain_vpa(NAMESPACE, "web")
    assert result.explanation == {}


def test_texts_are_cut_to_a_length_that_a_table_can_hold() -> None:
    class Verbose(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            return Estimates(super().estimate(rows, values, now).bounds, explanation={"why": ["x" * 1000]})

    shop = World(Verbose("default", GOOD))
    shop.apply()
    shop.run_pods()
    shop.ingest_usage()
    [result] = shop.decide().explain_vpa(NAMESPACE, "web")
    assert result.explanation == {"why": "x" * 200}


@pytest.mark.parametrize(
    ("explanation", "message"),
    [
        ([1.0], "of type list instead of columns by name"),
        ({"a": np.zeros(3)}, "a column a of shape (3,) instead of (2,)"),
        ({"a": np.zeros(2, dtype=np.int64)}, "a column a that is neither a column of floats nor a list of texts"),
        ({"a": "xy"}, "neither a column of floats nor a list of texts"),
        ({"a": ["x", 1]}, "neither a column of floats nor a list of texts"),
        ({"a": ["x"]}, "a column a of 1 texts for 2 rows"),
        ({7: ["x", "y"]}, "returned an explanation with a column whose name is not a short text"),
        ({str(number): ["x", "y"] for number in range(33)}, "of 33 columns; the maximum is 32"),
        ({"a": ["x", "y"], "b": np.array([1.0, math.nan])}, ""),
        ({}, ""),
    ],
)
def test_an_explanation_has_columns_as_long_as_the_estimates(explanation: object, message: str) -> None:
    result = find_explanation_problem(explanation, 2)
    assert result.startswith("returned an explanation") if message else result == ""
    assert message in result


def test_an_explanation_of_another_shape_is_a_failure_that_is_named() -> None:
    class Short(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            return Estimates(super().estimate(rows, values, now).bounds, explanation={"why": []})

    shop = World(Short("default", GOOD))
    shop.apply()
    shop.run_pods()
    shop.run()
    message = shop.conditions()["RecommenderFailed"]["message"]
    assert message == "recommender default returned an explanation with a column why of 0 texts for 1 rows"
