"""An observer of a pass is called with every stage of amounts and changes none."""

from __future__ import annotations

import numpy as np

from support.worlds.vpas import Stub, World
from trellis.base.reasons import Reason
from trellis.core.recommend.explanations import TargetTrace
from trellis.core.recommend.post_processing import POST_PROCESSORS
from trellis.core.recommend.recommendation_pass import run_pass
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.usage.columns import FloatColumn

POLICY = {"containerPolicies": [{"containerName": "app", "minAllowed": {"cpu": "2"}, "maxAllowed": {"memory": "1G"}}]}


def world() -> World:
    result = World(
        Stub("default", (400.0, 777.0, 900.0)),
        settings=PipelineSettings(round_cpu_millicores=50, max_allowed_cpu=1500.0),
    )
    result.apply(resourcePolicy=POLICY)
    result.run_pods()
    result.ingest_usage()
    return result


def test_every_stage_is_observed_once_in_order_and_the_last_has_the_published_amounts() -> None:
    shop = world()
    observed: list[tuple[Reason | None, FloatColumn]] = []
    result = run_pass(
        shop.model.view(),
        shop.vpa_store,
        shop.recommenders,
        shop.settings,
        shop.now,
        observer=lambda reason, amounts: observed.append((reason, amounts.copy())),
    )
    assert [reason for reason, _ in observed] == [None, *(stage.reason for stage in POST_PROCESSORS)]
    np.testing.assert_array_equal(observed[-1][1], result.columns.amounts)


def test_watching_changes_nothing() -> None:
    result = world()
    alone, watched = result.decide(), TargetTrace()
    second = run_pass(
        result.model.view(), result.vpa_store, result.recommenders, result.settings, result.now, observer=watched
    )
    np.testing.assert_array_equal(alone.columns.amounts, second.columns.amounts)
    assert [write.status for write in alone.writes] == [write.status for write in second.writes]


def test_a_trace_has_the_changes_of_each_stage() -> None:
    result, trace = world(), TargetTrace()
    run_pass(result.model.view(), result.vpa_store, result.recommenders, result.settings, result.now, observer=trace)
    steps = [(step.resource, step.reason.code, step.before, step.after) for step in trace.steps(0)]
    assert steps == [
        ("cpu", "RoundedUp", 777.0, 800.0),
        ("cpu", "CappedToMinAllowed", 800.0, 2000.0),
        ("cpu", "CappedToClusterMaximum", 2000.0, 1500.0),
        ("memory", "CappedToMaxAllowed", 2e9, 1e9),
    ]
