"""`trellis recommend --suggest-buckets`: from the options to what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.builders.surveys_over_time import recorded_shop
from trellis.cli import survey
from trellis.cli.main import trellis


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A survey of a shop that lives, whoever asks, and what was asked."""
    options: dict[str, Any] = {}

    def run_survey(_traces: object, **how: Any) -> survey.SurveyOutcome:
        options.update(how)
        return survey.SurveyOutcome(recorded_shop())

    monkeypatch.setattr(survey, "run_survey", run_survey)
    return options


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["recommend", "--quiet", *arguments])


def test_suggested_buckets_replace_sizes(asked: dict[str, Any]) -> None:
    result = run("--suggest-buckets")
    assert result.exit_code == 0, result.stderr
    assert asked["suggest_buckets"] is True
    assert "Buckets for 5 of 9 workloads" in result.stdout
    assert "CPU request" not in result.stdout
    assert "CPU request" in run().stdout
    assert asked["suggest_buckets"] is False


def test_manifests_that_are_written_pass_a_check(asked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "buckets.yaml"
    assert run("--suggest-buckets", "-o", "yaml", "--output-file", str(file)).exit_code == 0
    assert asked["suggest_buckets"] is True
    result = CliRunner().invoke(trellis, ["check", str(file)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("usage.csv",), "how many pods there were"),
        (("--vpas",), "how many pods there were"),
        (("--emit", "vpa", "out"), "prints manifests with -o yaml"),
    ],
)
def test_buckets_with_excluding_options_are_refused(arguments: tuple[str, ...], why: str) -> None:
    result = run("--suggest-buckets", *arguments)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())
