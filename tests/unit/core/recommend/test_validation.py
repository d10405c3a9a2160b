"""Failing recommenders: their VPAs keep the recommendation with a condition, and others are not affected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.worlds.vpas import NAMESPACE, Stub, World
from trellis.core.recommend.protocol import Estimates, Rows

GOOD = (500.0, 1000.0, 2000.0)


def create_world_with_two_recommenders() -> tuple[World, Stub]:
    """One VPA served by a recommender that can be broken, one by another."""
    broken = Stub("broken", GOOD)
    shop = World(broken, Stub("default", GOOD))
    shop.apply("web", recommenders=[{"name": "broken"}])
    shop.apply("calm")
    for name in ("web", "calm"):
        shop.run_pods(name)
        shop.ingest_usage(vpa=name)
    shop.run()
    return shop, broken


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        ((math.nan, 1000.0, 2000.0), "lower bound nan, target 1000"),
        ((-1.0, 1000.0, 2000.0), "lower bound -1"),
        ((500.0, 1000.0, math.inf), "upper bound inf"),
        ((1500.0, 1000.0, 2000.0), "lower bound 1500, target 1000"),
        ((500.0, 3000.0, 2000.0), "target 3000, upper bound 2000"),
    ],
)
def test_impossible_estimates_change_nothing_and_are_reported(cpu: tuple[float, ...], message: str) -> None:
    shop, broken = create_world_with_two_recommenders()
    before = shop.advice()
    broken.cpu = cpu
    assert [write.name for write in shop.run()] == ["web"]
    assert shop.advice() == before
    condition = shop.conditions()["RecommenderFailed"]
    assert condition["message"].startswith("recommender broken returned an invalid recommendation for app: cpu: ")
    assert message in condition["message"]
    assert shop.true_conditions() == {"RecommendationProvided", "RecommenderFailed"}
    assert shop.run() == []
    broken.cpu = GOOD
    shop.run()
    assert shop.true_conditions() == {"RecommendationProvided"}


def test_an_error_changes_nothing_and_is_named() -> None:
    shop, broken = create_world_with_two_recommenders()
    before = shop.advice()
    broken.error = ZeroDivisionError("division\nby zero")
    result = shop.decide()
    assert [(failure.namespace, failure.vpa) for failure in result.failures] == [(NAMESPACE, "web")]
    shop.run()
    assert shop.advice() == before
    message = shop.conditions()["RecommenderFailed"]["message"]
    assert message == 'recommender broken failed: ZeroDivisionError: "division\\nby zero"'
    assert "RecommenderFailed" not in shop.conditions("calm")


class Misshapen(Stub):
    """Answers with whatever it is told to."""

    answer: Any = None

    def estimate(self, _rows: Rows, _values: Any, _now: float, /) -> Estimates:
        estimates: Estimates = self.answer
        return estimates


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        (None, "returned NoneType instead of Estimates"),
        (Estimates(np.zeros((3, 1))), "returned bounds of shape (3, 1) instead of (3, 2, 1)"),
        (Estimates(np.zeros((3, 2, 1)), np.zeros(2)), "returned totals of shape (2,)"),
        (Estimates(np.full((3, 2, 1), "many")), "returned bounds that are not a column of floats"),
        (Estimates([1, 2, 3]), "returned bounds that are not a column of floats"),  # type: ignore[arg-type]
        (Estimates(np.zeros((3, 2, 1)), None, np.zeros(3)), "returned confidence of shape (3,)"),
    ],
)
def test_estimates_of_another_shape_are_rejected(estimates: object, message: str) -> None:
    odd = Misshapen("default", GOOD)
    odd.answer = estimates
    shop = World(odd)
    shop.apply()
    shop.run_pods()
    shop.run()
    assert message in shop.conditions()["RecommenderFailed"]["message"]
    assert shop.status()["recommendation"] == {}


def test_an_impossible_container_fails_its_vpa_and_no_other() -> None:
    class Picky(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            result = super().estimate(rows, values, now)
            result.bounds[0, 0, [key.container == "bad" for key in rows.usage.keys]] = -1
            return result

    picky = Picky("default", GOOD)
    shop = World(picky)
    for name, containers in (("web", ("app", "bad")), ("calm", ("app",))):
        shop.apply(name)
        shop.run_pods(name, *containers)
    shop.run()
    assert shop.status()["recommendation"] == {}
    assert shop.target("calm")["cpu"] == "1"


def test_totals_must_be_possible_too() -> None:
    class Total(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            return Estimates(super().estimate(rows, values, now).bounds, np.full((2, len(rows)), -1.0))

    shop = World(Total("default", GOOD))
    shop.apply()
    shop.run_pods()
    shop.run()
    assert "RecommenderFailed" in shop.true_conditions()


def test_missing_estimates_are_no_failure() -> None:
    shop, broken = create_world_with_two_recommenders()
    before = shop.advice()
    broken.cpu = broken.memory = (math.nan,) * 3
    assert shop.run() == []
    assert shop.advice() == before


def test_amounts_are_truncated_to_integers_and_to_the_largest_amount() -> None:
    shop = World(Stub("default", (0.5, 1000.7, 1e20)))
    shop.apply()
    shop.run_pods()
    shop.run()
    entry = shop.advice()["app"]
    assert [entry[field]["cpu"] for field in ("lowerBound", "target", "upperBound")] == ["0", "1", "100G"]
