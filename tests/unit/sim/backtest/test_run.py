"""A backtest: what is scored, against what, how work is shared, and what is left when it is stopped."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
import pytest

from trellis.base.errors import InvalidInput
from trellis.core.recommend.evaluation.replay import DAY, HOUR, RecommenderRule, ReplayClock, replay_rule
from trellis.core.recommend.evaluation.replay import ReplaySettings as ReplayTerms
from trellis.core.recommend.evaluation.scores import compute_scores
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.sim.backtest.batch import build_charts
from trellis.sim.backtest.layout import count_points, lay_out_block
from trellis.sim.backtest.request import BacktestRequest, BacktestTerms, build_request
from trellis.sim.backtest.results import BacktestResult, SeriesScore
from trellis.sim.backtest.run import BacktestProgress, backtest
from trellis.sources.series.files import find_parts
from trellis.sources.series.series import Series

BEGIN = 1_790_035_200.0
GIB = 2.0**30
QUICK = BacktestTerms(step=4 * HOUR, warm_up=DAY)


def series(name: str, days: float = 4.0, interval: float = 1800.0, level: float = 1.0) -> Series:
    times = BEGIN + 7 * HOUR + np.arange(0.0, days * DAY, interval)
    noise = np.random.default_rng(zlib.crc32(name.encode())).lognormal(0.0, 0.3, len(times))
    wave = np.sin(2 * np.pi * times / DAY)
    return Series(name, times, level * (1 + 0.5 * wave) * noise, GIB * (1 + 0.05 * wave), f"{name}.csv")


def default(*sets: str, sweeps: Sequence[str] = (), terms: BacktestTerms = QUICK) -> BacktestRequest:
    return build_request(["default"], sets, sweeps, terms)


def test_scores_are_those_of_the_replay_of_the_core() -> None:
    one = series("a")
    block = lay_out_block([one], [0], count_points(one, QUICK.step), QUICK)
    rule = RecommenderRule(create_built_in_recommenders()["default"], ["a"], ReplayClock(block.usage.begin, QUICK.step))
    done = replay_rule(block.usage, rule, ReplayTerms(killed=np.array([False, True])))
    expected = compute_scores(block.usage, done, np.hstack([block.scored, block.scored]))
    result = backtest(default(), [], [one])
    [score] = result.series
    assert score.cpu is not None
    assert score.memory is not None
    for resource, mine in enumerate((score.cpu, score.memory)):
        assert mine.footprint == pytest.approx(expected.footprint[resource])
        assert mine.time_over == pytest.approx(expected.time_over[resource])
        assert mine.overrun == pytest.approx(expected.overrun[resource])
        assert mine.changes == pytest.approx(expected.changes[resource])
        assert mine.requested == pytest.approx(mine.footprint * mine.used)
    assert math.isnan(score.cpu.kills)


def test_a_step_before_anything_was_decided_is_not_scored() -> None:
    flat = Series("a", BEGIN + np.arange(0.0, 4 * HOUR, HOUR), np.ones(4), np.full(4, GIB), "a.csv")
    result = backtest(default(terms=BacktestTerms(step=HOUR, warm_up=0.0)), [], [flat])
    [score] = result.series
    assert score.cpu is not None
    assert score.cpu.footprint > 1.0
    assert result.notes == []


def test_a_series_that_is_over_before_anything_is_decided_is_reported() -> None:
    result = backtest(default(terms=BacktestTerms(step=9 * DAY)), [], [series("a"), series("b", days=40.0)])
    assert [one_series.cpu is None for one_series in result.series] == [True, False]
    assert result.notes == ["a: not scored, because it is shorter than one step of 9 d"]


def test_all_variants_are_compared_with_the_first() -> None:
    result = backtest(default(sweeps=["default.margin=0,1"]), [], [series("a"), series("b", level=2.0)])
    base, least, most = (variant.cpu for variant in result.variants)
    assert base is not None
    assert least is not None
    assert most is not None
    assert (base.footprint, base.time_over, base.worse, base.series) == (1.0, 1.0, 0.0, 2)
    assert least.footprint < 1.0 < most.footprint
    assert least.time_over > 1.0
    assert [curve.variant for curve in result.curves] == [variant.name for variant in result.variants]
    assert result.sweeps[0].variants == ["default margin=0", "default margin=1"]
    middle = len(result.curves[0].factors) // 2
    assert result.curves[0].footprint[middle] == pytest.approx(base.figures.footprint)


def test_a_series_without_memory_has_no_score_of_it() -> None:
    bare = msgspec.structs.replace(series("a"), memory=np.full(192, np.nan))
    result = backtest(default(), [], [bare, series("b")])
    assert [one_series.memory is None for one_series in result.series] == [True, False]
    assert result.variants[0].memory is not None
    assert result.variants[0].memory.series == 1


def test_a_series_too_short_to_be_scored_is_listed_without_scores() -> None:
    result = backtest(default(), [], [series("short", days=0.01, interval=300.0), series("b")])
    assert [one_series.cpu is None for one_series in result.series] == [True, False]


def test_series_sampled_differently_are_laid_out_apart_and_end_in_their_order() -> None:
    many = [series("a"), series("b", interval=300.0), series("c", days=2.0), series("d", interval=300.0)]
    result = backtest(default(), [], many)
    assert [fact.name for fact in result.facts] == ["a", "b", "c", "d"]
    alone = [backtest(default(), [], [series]).series[0] for series in many]
    assert [figures(one_series) for one_series in result.series] == [pytest.approx(figures(score)) for score in alone]


def figures(score: SeriesScore) -> list[float]:
    assert score.cpu is not None
    return [score.cpu.requested, score.cpu.used, score.cpu.time_over, score.cpu.overrun, score.cpu.changes]


def test_the_same_series_give_the_same_bytes_again_and_the_same_scores_by_two_processes(tmp_path: Path) -> None:
    for name in "abc":
        one = series(name)
        rows = "".join(f"{time:.0f},{cpu:.6f}\n" for time, cpu in zip(one.times, one.cpu, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"timestamp,cpu\n{rows}")
    parts = find_parts([str(tmp_path)]).parts
    alone, again, pair = (backtest(default(), parts, processes=number) for number in (1, 1, 2))
    assert msgspec.json.encode(alone) == msgspec.json.encode(again)
    assert alone.facts == pair.facts
    assert [figures(one_series) for one_series in pair.series] == [
        pytest.approx(figures(one_series)) for one_series in alone.series
    ]


def test_two_series_of_one_name_are_named_with_their_files() -> None:
    first, second = series("a"), msgspec.structs.replace(series("a"), source="other.csv")
    assert [fact.name for fact in backtest(default(), [], [first, second]).facts] == ["a (a.csv)", "a (other.csv)"]


def test_an_invalid_file_is_skipped_and_reported_and_the_others_are_scored(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("timestamp,cpu\n0,-1\n60,1\n")
    result = backtest(default(), find_parts([str(tmp_path)]).parts, [series("a")])
    assert [fact.name for fact in result.facts] == ["a"]
    assert "row 2, column cpu: -1 is negative" in result.left_out[0]
    assert not result.partial


def after(calls: int) -> Callable[[], bool]:
    """Wants to stop when it has been asked so often."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


def test_stopping_gives_the_finished_variants_marked_as_partial() -> None:
    request = default(sweeps=["default.margin=0:0.5:0.1"])
    asked: list[BacktestProgress] = []
    result = backtest(request, [], [series("a"), series("b")], progress=asked.append, stop=after(5))
    assert result.partial
    assert 1 <= len(result.variants) < len(request.variants)
    assert len(result.series) == 2 * len(result.variants)
    assert result.sweeps == []
    assert all(progress.done <= progress.total for progress in asked)


def test_stopping_at_once_gives_no_results_and_no_error() -> None:
    result = backtest(default(), [], [series("a")], stop=lambda: True)
    assert (result.partial, result.facts, result.variants) == (True, [], [])


def test_progress_rises_to_the_end() -> None:
    result: list[float] = []
    backtest(default(), [], [series("a")], progress=lambda progress: result.append(progress.done / progress.total))
    assert result == sorted(result)
    assert result[-1] == 1.0


def test_a_chart_shows_usage_and_what_each_variant_requests() -> None:
    result = backtest(default(sweeps=["default.margin=1,2"]), [], [series("a")])
    [chart] = result.charts
    assert chart.times[0] <= BEGIN + 7 * HOUR
    cpu, memory = chart.lines
    assert (cpu.resource, memory.resource) == ("cpu", "memory")
    assert len(cpu.requested) == 3
    assert {len(cpu.used), len(cpu.peak), *map(len, cpu.requested)} == {len(chart.times)}
    assert all(peak >= used for peak, used in zip(cpu.peak, cpu.used, strict=True))


def test_a_chart_of_a_long_time_is_thinned_out() -> None:
    one = series("a", days=30.0)
    block = lay_out_block([one], [5], 2, msgspec.structs.replace(QUICK, step=HOUR))
    [(place, chart)] = build_charts(block, [np.ones((block.usage.steps, 2))], 10)
    assert place == 5
    assert len(chart.times) == 240
    assert chart.lines[0].requested == [[1.0] * 240]
    assert np.mean(chart.lines[0].used) == pytest.approx(one.cpu.mean(), rel=0.01)


def test_a_result_survives_being_written_as_json() -> None:
    result = backtest(default(), [], [series("a")])
    text = msgspec.json.encode(result)
    assert b"NaN" not in text
    document = msgspec.json.decode(text)
    assert document["series"][0]["cpu"]["kills"] is None
    assert len(document) == len(BacktestResult.__struct_fields__)


def test_an_installed_recommender_is_imported_by_what_its_package_announces() -> None:
    request = build_request(
        ["mine"], terms=QUICK, installed={"mine": "trellis.core.recommend.recommenders.default:DefaultRecommender"}
    )
    assert backtest(request, [], [series("a")]).series[0].variant == "mine"


class Raising(DefaultRecommender):
    """One of others that fails when it is asked."""

    def estimate(self, *_asked: object) -> NoReturn:
        raise ZeroDivisionError("by its author")


def test_a_recommender_of_others_that_fails_is_reported() -> None:
    request = build_request(["mine"], terms=QUICK, installed={"mine": f"{__name__}:Raising"})
    result = backtest(request, [], [series("a")])
    assert result.left_out == ["a could not be replayed: ZeroDivisionError: by its author"]
    assert (result.facts, result.partial) == ([], False)


@pytest.mark.parametrize(
    "value", ["no_such_module:Thing", "trellis.core:Thing", "trellis.core.recommend.evaluation.replay:DAY"]
)
def test_a_recommender_that_cannot_be_loaded_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="--recommenders: cannot be loaded: "):
        build_request(["mine"], installed={"mine": value})


@pytest.mark.parametrize(
    ("names", "sets", "sweeps", "message"),
    [
        (["defualt"], [], [], r'"defualt": --recommenders: unknown recommender \(did you mean default\?\)'),
        (["phases"], [], [], "this recommender needs the runs of a Job"),
        ([], [], [], "name at least one"),
        (["default"], ["default.margn=1"], [], r"default has no parameter margn \(did you mean margin\?\)"),
        (["default"], ["seasonal.horizon=2h"], [], "seasonal is not in --recommenders default"),
        (["default", "seasonal"], ["horizon=2h"], [], "must name the recommender, as in default.horizon"),
        (["default"], ["default.margin"], [], "must be written as recommender.parameter=value"),
        (["default"], ["default.percentile=9"], [], "target-cpu-percentile is a number, fraction, 0 to 1"),
        (["seasonal"], ["seasonal.horizon=2"], [], "--set seasonal.horizon=2: .*unit is missing"),
        (["default"], [], ["default.percentile=0.9:0.8:0.1"], "must go from a lower to a higher value"),
        (["default"], [], ["default.percentile=0.5:0.9"], "must be begin:end:step"),
        (["default"], [], ["default.percentile=a:b:c"], '--sweep: "a": must be a number'),
        (["default"], [], ["default.percentile=0:1:0.0001"], "must give at most 200 values"),
        (["default"], [], ["default.percentile=0.9:1.2:0.1"], "must be at most 1"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_flag_and_range(
    names: list[str], sets: list[str], sweeps: list[str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        build_request(names, sets, sweeps)


def test_ranges_include_their_end_and_durations_are_written_as_such() -> None:
    request = build_request(["seasonal"], sweeps=["seasonal.horizon=1h:3h:1h", "seasonal.percentile=0.8:0.99:0.05"])
    assert request.sweeps[0].values == ("1h0m0s", "2h0m0s", "3h0m0s")
    assert request.sweeps[1].values == ("0.8", "0.85", "0.9", "0.95")
    assert request.variants[1].parameters == {"horizon": "1h0m0s"}
    assert request.variants[-1].parameters == {"target-cpu-percentile": "0.95"}


def test_the_series_of_one_file_are_shared_out_among_processes(tmp_path: Path) -> None:
    rows = "".join(
        f"{time:.0f},{one.name},{cpu:.6f}\n"
        for one in (series("a"), series("b"))
        for time, cpu in zip(one.times, one.cpu, strict=True)
    )
    (tmp_path / "usage.csv").write_text(f"timestamp,series,cpu\n{rows}0,c,-1\n60,c,1\n")
    parts = find_parts([str(tmp_path)]).parts
    shares: list[float] = []
    result = backtest(default(), parts, processes=2, progress=lambda progress: shares.append(progress.total))
    assert [fact.name for fact in result.facts] == ["a", "b"]
    assert "(series c): -1 is negative" in result.left_out[0]
    assert set(shares) == {384.0}
