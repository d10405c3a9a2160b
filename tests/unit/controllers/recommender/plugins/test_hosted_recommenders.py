"""The recommender behind each name, from the flags to the conditions of VPAs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.controllers.recommender import World
from support.entry_points import announce
from trellis.base.errors import InvalidInput
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin, find_plugins
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders, host_recommenders
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS
from trellis.core.recommend.validation import UnavailableRecommender
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.runtime.telemetry.metrics import Metrics

UNRULY = {"unruly": "unruly_recommender:Unruly"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which packages can be announced."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@contextmanager
def hosting(names: str, *presets: str) -> Iterator[HostedRecommenders]:
    given = {"recommender_name": (names,), "set": presets}
    settings = load_settings(RecommenderSettings, from_flags(RecommenderSettings, given)).settings
    hosted = host_recommenders(settings, Metrics(RECOMMENDER_METRICS, about_process=False))
    try:
        yield hosted
    finally:
        hosted.close()


def defaults(recommender: Recommender) -> Mapping[str, Any]:
    return {parameter.name: parameter.default for parameter in recommender.parameters}


def test_an_unknown_name_means_the_default_algorithm_and_is_logged(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with hosting("default,frugal") as hosted:
        result = hosted.get_recommenders()
    assert {name: type(item) for name, item in result.items()} == {
        "default": DefaultRecommender,
        "frugal": DefaultRecommender,
    }
    assert result["frugal"].name == "frugal"
    [line] = [record for record in caplog.records if "no recommender of that name is installed" in record.message]
    assert line.trellis_fields == {"recommender": "frugal"}  # type: ignore[attr-defined]


def test_an_installed_recommender_serves_its_name_and_is_the_same_in_every_pass(site: Path) -> None:
    announce(site, "unruly-package", UNRULY)
    with hosting("default,unruly", "unruly.millicores=250") as hosted:
        before = hosted.get_recommenders()["unruly"]
        hosted.start(30.0)
        result = hosted.get_recommenders()["unruly"]
        assert isinstance(before, UnavailableRecommender)
        assert before.reason == "recommender unruly is still starting"
        assert defaults(result) == {"mood": "fine", "millicores": 250.0}
        assert hosted.get_recommenders()["unruly"] is result


def test_an_unused_recommender_is_not_loaded(site: Path) -> None:
    announce(site, "broken-package", {"broken": "no_such_module:X"})
    with hosting("default") as hosted:
        hosted.start(30.0)
        assert list(hosted.get_recommenders()) == ["default"]


def test_a_recommender_that_cannot_be_imported_has_a_stand_in_with_the_problem(site: Path) -> None:
    announce(site, "broken-package", {"broken": "no_such_module:X"})
    with hosting("default,broken") as hosted:
        hosted.start(30.0)
        broken = hosted.get_recommenders()["broken"]
        assert isinstance(broken, UnavailableRecommender)
        assert broken.reason.startswith(
            "recommender broken of package broken-package 1.0 cannot be used: no_such_module:X cannot be loaded: "
        )
        assert hosted.get_recommenders()["broken"] is broken


def test_two_packages_with_one_name_are_reported(site: Path) -> None:
    announce(site, "one-package", UNRULY)
    announce(site, "other-package", UNRULY, "2.0")
    with hosting("unruly") as hosted:
        result = hosted.get_recommenders()["unruly"]
    assert isinstance(result, UnavailableRecommender)
    assert result.reason == (
        "recommender unruly is installed twice, by one-package 1.0 and other-package 2.0: "
        "uninstall all but one of these packages"
    )


def test_a_built_in_recommender_cannot_be_replaced(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    announce(site, "sneaky-package", {"default": "unruly_recommender:Unruly"})
    with hosting("default") as hosted:
        assert isinstance(hosted.get_recommenders()["default"], DefaultRecommender)
    assert "a built-in recommender has the name of an installed one" in caplog.text


def test_entry_points_are_read_with_their_packages(site: Path) -> None:
    announce(site, "unruly-package", UNRULY)
    assert find_plugins()["unruly"] == (RecommenderPlugin("unruly", UNRULY["unruly"], "unruly-package", "1.0"),)


@pytest.mark.parametrize(
    ("presets", "message"),
    [
        (("target-cpu-percentile=90",), '"target-cpu-percentile=90": flag --set: must be at most 1'),
        (("target-cpu=1",), '"target-cpu": flag --set: is not a parameter of this recommender'),
        (("other.x=1",), '"other.x=1": flag --set: there is no recommender other here; served are default; add'),
        (("x",), '"x": flag --set: must be written as parameter=value'),
    ],
)
def test_presets_of_a_built_in_recommender_are_checked_before_the_start(presets: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput) as refused, hosting("default", *presets):
        pass
    assert str(refused.value).startswith(message)


def test_presets_apply_to_every_vpa_of_the_process(site: Path) -> None:
    world = World("--set=recommendation-margin-fraction=1")
    world.add_workload("web")

    async def play() -> None:
        await world.passes(1)
        assert world.target("web")["cpu"] == "1022m"

    world.run(play)


def named(recommender: str, **parameters: str) -> dict[str, Any]:
    return {"recommenders": [{"name": recommender, "parameters": parameters}]}


@pytest.mark.req("CR-07", "CR-08", "CR-18")
def test_built_in_and_installed_recommenders_of_a_process_do_not_affect_each_other(site: Path) -> None:
    announce(site, "unruly-package", UNRULY | {"broken": "no_such_module:X"})
    world = World("--recommender-name=default,unruly,broken", "--recommender-deadline=5s")
    for name in ("web", "plug", "bad", "crash", "broken"):
        world.add_workload(name)
    for name, spec in {
        "plug": named("unruly", millicores="250"),
        "bad": named("unruly", millicores="lots"),
        "crash": named("unruly", mood="segfault"),
        "broken": named("broken", any="thing"),
    }.items():
        world.add_vpa(name, **spec)

    async def play() -> None:
        await world.passes(2)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.target("plug") == {"cpu": "250m", "memory": "1000000000"}
        for name, kind, message in (
            ("bad", "ConfigUnsupported", 'parameters[millicores]: Invalid value: "lots": must be a number'),
            ("crash", "RecommenderFailed", "recommender unruly crashed: its process was killed by SIGSEGV"),
            ("broken", "RecommenderFailed", "recommender broken of package unruly-package 1.0 cannot be used"),
        ):
            condition = world.condition(name, kind)
            assert condition is not None, name
            assert message in condition["message"]
            assert world.target(name) == {}
        assert world.condition("web", "RecommenderFailed") is world.condition("plug", "RecommenderFailed") is None
        failures = 'trellis_recommender_worker_failures_total{reason="RecommenderCrashed",recommender="unruly"}'
        assert world.metric_value(failures) >= 1

    world.run(play)


def test_a_shadow_is_observed_and_never_applied_and_a_missing_one_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World("--recommender-name=default,other", "--set=other.recommendation-margin-fraction=1.3")
    world.add_workload("web")
    world.vpa("web")["metadata"]["annotations"] = {SHADOW_RECOMMENDERS: "other,absent"}

    async def play() -> None:
        await world.passes(3)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        labels = 'recommender="other",resource="cpu"'
        assert world.metric_value(f"trellis_recommender_shadow_relative_difference_count{{{labels}}}") == 3
        assert world.metric_value(f"trellis_recommender_shadow_relative_difference_sum{{{labels}}}") == pytest.approx(
            3.0, abs=0.02
        )
        assert world.metric_value('trellis_recommender_shadow_failures_total{recommender="other"}') == 0
        assert world.metric_value('trellis_recommender_shadow_unhosted_vpas{recommender="absent"}') == 1

    world.run(play)
    records = [
        record
        for record in caplog.records
        if "a shadow recommender is not served by this process; add it to --recommender-name" in record.message
    ]
    assert [record.trellis_fields["recommender"] for record in records] == ["absent"]  # type: ignore[attr-defined]
