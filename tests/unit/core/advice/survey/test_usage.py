"""Usage of a namespace: equal in any batches, saved across restarts, and estimated as for a VPA."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as example
from hypothesis import strategies as st

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line
from trellis.core.advice.survey.estimates import estimate_workloads
from trellis.core.advice.survey.model import ResourceAmount, SurveyedContainer, SurveyedWorkload
from trellis.core.advice.survey.usage import NamespaceUsageCounter, SurveyedUsage, SurveySettings
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.recording.survey import SavedNamespace, encode_namespace, encode_survey_start, read_saved_survey
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Measurements, Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

NOW = 1_785_585_600.0
STEP = 300.0
DAY = 86_400.0
MIB = 2.0**20
KEY = "Deployment/web"
WEB = SurveyedWorkload(
    "shop", "apps/v1", "Deployment", "web", 1, 1, (SurveyedContainer("app", ResourceAmount(500, 512 * MIB)),)
)
DEFAULT = create_built_in_recommenders()["default"]
FIGURES = {"resolution": "5m"}


def usage_of(kills: Sequence[OomKill] = (), recommender: Recommender = DEFAULT) -> NamespaceUsageCounter:
    return NamespaceUsageCounter("shop", {KEY: WEB}, {"odd": KEY}, SurveySettings(recommender), kills)


def measured(days: float, cpu: float = 0.2, memory: float = 300 * MIB) -> Measurements:
    times = NOW - STEP * np.arange(round(days * DAY / STEP), -1, -1.0)
    return Measurements(times, np.full(len(times), cpu), np.full(len(times), memory))


def counted(counting: NamespaceUsageCounter, advised: Measurements, pod: str = "odd", container: str = "app") -> int:
    return counting.add_batch([(pod, container)], np.zeros(len(advised), dtype=np.int64), advised, NOW)


def only(rows: Sequence[SurveyedUsage]) -> SurveyedUsage:
    [row] = rows
    return row


def test_pods_are_identified_by_their_owner_or_by_their_names() -> None:
    counting = usage_of()
    assert counted(counting, measured(0.1, cpu=1.0)) == 30
    assert counted(counting, measured(0.1, cpu=2.0), pod="web-7d4b9c6f5d-x2k9b") > 0
    assert counted(counting, measured(0.1, cpu=9.0), pod="db-0") == 0
    assert counted(counting, measured(0.1, cpu=9.0), container="init") == 0
    row = only(counting.build_rows(NOW))
    assert (row.highest.cpu, counting.series) == (2000, 4)
    assert row.row.count == 2 * 30


def test_a_workload_with_unknown_containers_has_those_of_its_history() -> None:
    unknown = msgspec.structs.replace(WEB, containers=())
    counting = NamespaceUsageCounter("shop", {KEY: unknown}, {"odd": KEY}, SurveySettings(DEFAULT))
    counted(counting, measured(1.0), container="late")
    [workload] = estimate_workloads(
        {("shop", KEY): unknown}, counting.build_rows(NOW), SurveySettings(DEFAULT), NOW
    ).workloads
    [container] = workload.containers
    assert container.name == "late"
    assert container.estimate.target.cpu > 200


@given(cuts=st.lists(st.integers(1, 575), max_size=5), seed=st.integers(0, 99))
@example(max_examples=25, deadline=None)
def test_batches_give_the_same_rows_as_a_single_one(cuts: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    times = NOW - STEP * np.arange(576, -1, -1.0)
    every = Measurements(times, draw.lognormal(-1, 1, 577), draw.lognormal(19, 0.3, 577))
    complete, parts = usage_of(), usage_of()
    counted(complete, every)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 577], strict=True):
        piece = slice(first, last)
        if last > first:
            counted(parts, Measurements(times[piece], every.cpu[piece], every.memory[piece]))
    one, other = only(complete.build_rows(NOW)), only(parts.build_rows(NOW))
    assert one.row.memory == other.row.memory
    assert one.row.cpu.weights == other.row.cpu.weights
    assert one.highest == other.highest
    assert one.highest == ResourceAmount(1000 * every.cpu.max(), every.memory.max())


@given(ago=st.floats(0.0, 1.99), days=st.sampled_from([0.5, 2.0]))
@example(max_examples=20, deadline=None)
def test_a_kill_counts_at_any_time(ago: float, days: float) -> None:
    kill = OomKill("shop", "odd", "", "app", NOW - ago * DAY)
    counting = usage_of([kill])
    counted(counting, measured(days))
    row = only(counting.build_rows(NOW))
    assert (row.kills, row.last_kill) == (1, kill.time)
    # 512 MiB were requested and not enough: at least 100 MiB and a fifth more.
    [workload] = estimate_workloads({("shop", KEY): WEB}, [row], SurveySettings(DEFAULT), NOW).workloads
    assert workload.containers[0].estimate.upper.memory > 600 * MIB
    assert workload.containers[0].kills == 1


def test_a_kill_of_a_pod_without_usage_counts_too() -> None:
    counting = usage_of([OomKill("shop", "web-7d4b9c6f5d-x2k9b", "", "app", NOW - 60, 800 * MIB)])
    row = only(counting.build_rows(NOW))
    assert (row.kills, row.row.count) == (1, 0)
    [workload] = estimate_workloads({("shop", KEY): WEB}, [row], SurveySettings(DEFAULT), NOW).workloads
    estimate = workload.containers[0].estimate
    assert estimate.target.memory > 900 * MIB
    assert math.isnan(estimate.target.cpu) or estimate.target.cpu >= 0


def test_the_estimate_equals_that_for_a_vpa_with_the_same_usage() -> None:
    counting = usage_of()
    advised = measured(2.0)
    counted(counting, advised)
    [workload] = estimate_workloads(
        {("shop", KEY): WEB}, counting.build_rows(NOW), SurveySettings(DEFAULT), NOW
    ).workloads
    model = UsageModel()
    model.track_pods("shop", [TrackedPod("shop", "p", "p", "vpa", True, (TrackedContainer("app"),))], NOW)
    names = ["shop"] * len(advised), ["p"] * len(advised), ["app"] * len(advised)
    model.ingest(Samples(*names, advised.times, advised.cpu, advised.memory), NOW)
    view = model.view()
    values: ParameterValues = {parameter.name: parameter.default for parameter in DEFAULT.parameters}
    expected = DEFAULT.estimate(Rows.from_view(view, np.arange(1), np.ones(1)), values, NOW).target[:, 0]
    estimate = workload.containers[0].estimate
    assert estimate.target.cpu == pytest.approx(expected[0], abs=1)
    assert estimate.target.memory == pytest.approx(expected[1], rel=1e-6)
    assert estimate.confidence == pytest.approx(2 * DAY / STEP / 1440, rel=0.01)


@pytest.mark.parametrize("recommender", ["default", "adaptive", "phases"])
def test_the_estimate_of_a_workload_does_not_depend_on_others(recommender: str) -> None:
    asked = SurveySettings(create_built_in_recommenders()[recommender])
    counting = NamespaceUsageCounter("shop", {KEY: WEB}, {"odd": KEY}, asked)
    counted(counting, measured(3.0))
    [used] = counting.build_rows(NOW)
    keys = [("shop", f"Deployment/web-{number}") for number in range(70)]
    rows = [
        msgspec.structs.replace(used, row=msgspec.structs.replace(used.row, key=RowKey(*key, "app"))) for key in keys
    ]
    together = estimate_workloads(dict.fromkeys(keys, WEB), rows, asked, NOW).workloads
    assert len(together) == 70
    for place in (0, 35, 69):
        alone = estimate_workloads({keys[place]: WEB}, [rows[place]], asked, NOW).workloads
        assert repr(alone) == repr((together[place],)), "NaN is not equal to itself"
        assert alone[0].containers[0].estimate.explanation


def test_a_failed_recommender_is_reported_without_estimates() -> None:
    class Broken:
        name = "broken"
        needs_history = False
        parameters = ()

        def estimate(self, _rows: Rows, _values: ParameterValues, _now: float, /) -> Estimates:
            raise ValueError("no idea")

    counting = usage_of()
    counted(counting, measured(0.5))
    advised = estimate_workloads({("shop", KEY): WEB}, counting.build_rows(NOW), SurveySettings(Broken()), NOW)
    assert math.isnan(advised.workloads[0].containers[0].estimate.target.cpu)
    assert [(item.what, item.where) for item in advised.missing] == [("recommendations", "shop")]
    assert "no idea" in advised.missing[0].why


@pytest.mark.parametrize("recommender", sorted(create_built_in_recommenders()))
def test_saved_usage_is_restored_exactly(recommender: str) -> None:
    counting = usage_of([OomKill("shop", "odd", "", "app", NOW - DAY)], create_built_in_recommenders()[recommender])
    counted(counting, measured(2.0))
    advised = SavedNamespace("shop", tuple(counting.build_rows(NOW)), 1154, counting.series)
    empty = SavedNamespace("void", ())
    lines = encode_survey_start(NOW, FIGURES, "1") + encode_namespace(advised) + encode_namespace(empty)
    retained = read_saved_survey(lines, FIGURES)
    assert retained.time == NOW
    assert retained.namespaces == {"shop": advised, "void": empty}


@pytest.mark.parametrize(
    ("lines", "figures", "says"),
    [
        (encode_survey_start(NOW, FIGURES, ""), {"resolution": "1h"}, "was the resolution of this survey"),
        (encode_survey_start(NOW, FIGURES, ""), {}, "was the resolution of this survey"),
        (
            encode_line(HEADER, RecordingHeader(FORMAT_VERSION, "dump")),
            FIGURES,
            "wrote this file; only the file of a survey can be resumed",
        ),
        (
            encode_line(HEADER, RecordingHeader(FORMAT_VERSION, "survey", "", FIGURES)),
            FIGURES,
            "does not contain the start of the survey: it was stopped before that was written",
        ),
        (b"", FIGURES, "is empty"),
    ],
)
def test_the_file_of_another_survey_is_refused(lines: bytes, figures: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidRecording, match=says):
        read_saved_survey(lines, figures)
