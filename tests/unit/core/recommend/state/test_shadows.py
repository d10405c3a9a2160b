"""Shadow recommenders estimate the same rows, and their estimates are never published."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.vpas import NAMESPACE, Stub, World
from trellis.core.recommend.amounts import CPU, MIDDLE
from trellis.core.recommend.estimation import compare_shadows
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS, read_shadow_names
from trellis.core.recommend.validation import UnavailableRecommender

OWN, OTHER = (500.0, 1000.0, 2000.0), (1000.0, 1500.0, 3000.0)


def shadowed_world(*others: Stub | UnavailableRecommender, names: str = "other") -> World:
    """Two VPAs served by default, one of which has shadows."""
    shop = World(Stub("default", OWN), *others)
    shop.apply("web", annotations={SHADOW_RECOMMENDERS: names})
    shop.apply("calm")
    for name in ("web", "calm"):
        shop.run_pods(name, "app", "proxy")
        shop.ingest_usage(vpa=name)
    return shop


def test_a_shadow_gets_only_the_rows_of_its_vpas_and_changes_no_status() -> None:
    other = Stub("other", OTHER)
    plain = World(Stub("default", OWN))
    shop = shadowed_world(other)
    result = shop.decide()
    assert other.estimated_rows == 2
    shop.run()
    assert {name: shop.target(name)["cpu"] for name in ("web", "calm")} == {"web": "1", "calm": "1"}
    for name in ("web", "calm"):
        plain.apply(name)
        plain.run_pods(name, "app", "proxy")
        plain.ingest_usage(vpa=name)
    plain.run()
    assert plain.advice("web") == shop.advice("web")
    assert plain.true_conditions("web") == shop.true_conditions("web")
    assert [item.shadows.keys() for item in result.explain_vpa(NAMESPACE, "calm")] == [set(), set()]
    for explanation in result.explain_vpa(NAMESPACE, "web"):
        assert explanation.recommender == "default"
        assert explanation.shadows["other"].estimates[:, CPU].tolist() == list(OTHER)


def test_differences_are_relative_to_the_recommendation() -> None:
    estimates = shadowed_world(Stub("other", OTHER, (1e9, 1e9, 1e9))).decide().estimates
    result = {
        (name, resource): column.tolist()
        for name, resource, column in compare_shadows(estimates.shadows, estimates.bounds)
    }
    assert result == {("other", "cpu"): [0.5, 0.5], ("other", "memory"): [-0.5, -0.5]}


def test_without_both_estimates_there_is_no_difference() -> None:
    other = Stub("other", (np.nan,) * 3)
    estimates = shadowed_world(other).decide().estimates
    result = {resource: len(column) for _, resource, column in compare_shadows(estimates.shadows, estimates.bounds)}
    assert result == {"cpu": 0, "memory": 2}


def test_a_failing_shadow_fails_no_vpa() -> None:
    other = Stub("other", OTHER)
    other.error = ZeroDivisionError("no")
    shop = shadowed_world(other)
    result = shop.decide()
    assert result.failures == ()
    assert result.estimates.shadows["other"].failure == 'recommender other failed: ZeroDivisionError: "no"'
    shop.run()
    assert "RecommenderFailed" not in shop.conditions("web")
    assert shop.target("web")["cpu"] == "1"


def test_an_impossible_shadow_estimate_is_reported_and_skipped() -> None:
    class Half(Stub):
        def estimate(self, rows: Rows, values: Any, now: float, /) -> Estimates:
            result = super().estimate(rows, values, now)
            result.bounds[0, 0, [key.vpa == "web" for key in rows.keys]] = -1
            return result

    shop = shadowed_world(Half("other", OTHER))
    shop.apply("calm", annotations={SHADOW_RECOMMENDERS: "other"})
    shadow = shop.decide().estimates.shadows["other"]
    assert "returned an invalid recommendation for app" in shadow.failure
    assert np.isnan(shadow.bounds[MIDDLE, CPU]).sum() == 2
    assert (shadow.bounds[MIDDLE, CPU] == 1500.0).sum() == 2


def test_an_unavailable_shadow_is_reported_as_a_failure() -> None:
    shop = shadowed_world(UnavailableRecommender("other", "recommender other cannot be used: not today"))
    result = shop.decide()
    assert result.estimates.shadows["other"].failure == "recommender other cannot be used: not today"
    assert result.failures == ()


def test_a_shadow_recommender_that_does_not_run_is_reported_with_its_vpa() -> None:
    shop = shadowed_world(names="nobody, other ,")
    result = shop.decide()
    assert [tuple(shadow) for shadow in result.missing_shadows] == [
        ("nobody", NAMESPACE, "web"),
        ("other", NAMESPACE, "web"),
    ]
    assert result.estimates.shadows == {}
    shop.apply("web")
    assert shop.decide().missing_shadows == ()


def test_a_deleted_vpa_has_no_shadows() -> None:
    other = Stub("other", OTHER)
    shop = shadowed_world(other, names="other,nobody")
    shop.decide()
    shop.vpa_store.drop(NAMESPACE, "web")
    asked = other.estimated_rows
    assert shop.decide().missing_shadows == ()
    assert other.estimated_rows == asked


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), (" , ,", ()), ("a", ("a",)), ("a, b ,a", ("a", "b")), ("default,a", ("a",)), ("a/b c", ("a/b c",))],
)
def test_shadow_names_are_unique_without_the_serving_recommender(text: str, names: tuple[str, ...]) -> None:
    assert read_shadow_names({SHADOW_RECOMMENDERS: text}, "default") == names


@given(st.text())
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    names = read_shadow_names({SHADOW_RECOMMENDERS: text}, "default")
    assert len(set(names)) == len(names)
    assert "" not in names
