"""`trellis recommenders`: the available recommenders, and their parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.entry_points import announce
from trellis.cli.main import main, trellis
from trellis.controllers.recommender.plugins.catalog import list_recommenders
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.reports.recommenders import as_text
from trellis.runtime.telemetry import logs


def test_built_in_recommenders_are_listed_with_parameters() -> None:
    result = CliRunner().invoke(trellis, ["recommenders"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "default (built in)"
    assert (
        "  target-cpu-percentile=0.9                          number, fraction, 0 to 1: "
        "Percentile of CPU usage for the target, as a fraction." in lines
    )
    assert all(any(line.startswith(f"{name} (built in") for line in lines) for name in create_built_in_recommenders())


def test_on_a_terminal_no_line_is_wider_than_it() -> None:
    listed = list_recommenders(())
    lines = list(as_text(listed, 80))
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(as_text(listed)).split())


def test_json_has_type_unit_range_default_and_meaning() -> None:
    result = CliRunner().invoke(trellis, ["recommenders", "default", "-o", "json"])
    [recommender] = json.loads(result.stdout)["recommenders"]
    assert (recommender["name"], recommender["builtIn"], recommender["needsHistory"]) == ("default", True, False)
    assert recommender["parameters"][7] == {
        "name": "confidence-interval-cpu",
        "type": "duration",
        "unit": "seconds",
        "default": "24h0m0s",
        "minimum": "1m0s",
        "maximum": "8760h0m0s",
        "meaning": "Length of history with which the upper bound of CPU is twice what usage alone gives.",
    }


def test_installed_recommenders_are_loaded_and_unusable_ones_are_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    announce(
        tmp_path, "unruly-package", {"unruly": "unruly_recommender:Unruly", "homeless": "unruly_recommender:Homeless"}
    )
    announce(tmp_path, "sneaky-package", {"default": "unruly_recommender:Unruly"})
    announce(tmp_path, "twin-package", {"homeless": "unruly_recommender:Unruly"})
    result = CliRunner().invoke(trellis, ["recommenders", "-o", "json"])
    assert result.exit_code == 1
    by_package = {
        (recommender["name"], recommender.get("package")): recommender
        for recommender in json.loads(result.stdout)["recommenders"]
    }
    unruly = by_package["unruly", "unruly-package"]
    assert [parameter["name"] for parameter in unruly["parameters"]] == ["mood", "millicores"]
    assert unruly["parameters"][0]["choices"][0] == "fine"
    assert "problem" not in unruly
    assert by_package["default", "sneaky-package"]["problem"] == ("a built-in recommender has this name and is used")
    for package in ("unruly-package", "twin-package"):
        assert by_package["homeless", package]["problem"] == (
            "several packages provide a recommender of this name: keep one"
        )


def test_an_invalid_recommender_is_reported_with_its_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    announce(tmp_path, "unruly-package", {"homeless": "unruly_recommender:Homeless"})
    result = CliRunner().invoke(trellis, ["recommenders", "homeless"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "homeless (unruly-package 1.0)"
    assert (
        "  cannot be used: unruly_recommender:Homeless returned Homeless, which is not a recommender: it has no"
        in result.stdout
    )


def test_an_unknown_name_is_reported() -> None:
    result = CliRunner().invoke(trellis, ["recommenders", "weekly"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no recommender weekly; available: default, window," in result.stderr
    assert "Install the package that provides it; until then the default algorithm runs under" in result.stderr


def test_an_invalid_parameter_is_refused_before_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "configure", lambda *_arguments: None)  # the process is that of all tests
    with pytest.raises(SystemExit) as stopped:
        main(["recommender", "--set=target-cpu-percentile=90", "--kubeconfig=/no/such/file"])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert 'trellis: "target-cpu-percentile=90": flag --set: must be at most 1' in message
