"""`trellis recommend`: from usage to a table, to files and to an exit code."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.builders.surveys import shop
from support.entry_points import announce
from trellis.api.kinds.vpa import UPDATE_MODES
from trellis.cli import survey
from trellis.cli.commands import recommend
from trellis.cli.main import main, trellis
from trellis.core.advice.survey.model import SurveyResult
from trellis.core.cluster.dump_format import MissingData
from trellis.reports.advice.report import FORMATS, ManifestForm

HEADER = "timestamp,namespace,workload,container,cpu_cores,memory_bytes\n"


@pytest.fixture
def usage(tmp_path: Path) -> str:
    """Two containers for two days, every quarter of an hour."""
    rows = [
        f"{900 * number},shop,{name},app,{level * (1 + number % 96 / 96):.3f},{5e8 + 1e6 * (number % 7):.0f}\n"
        for name, level in (("web", 0.5), ("db", 2.0))
        for number in range(192)
    ]
    path = tmp_path / "usage.csv"
    path.write_text(HEADER + "".join(rows))
    return str(path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A survey of the shop, whoever asks, and what was asked."""
    options: dict[str, Any] = {}

    def run_survey(_traces: object, **how: Any) -> survey.SurveyOutcome:
        options.update(how)
        return survey.SurveyOutcome(options.get("surveyed", shop()), {}, options.get("is_stopped", False))

    monkeypatch.setattr(survey, "run_survey", run_survey)
    return options


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["recommend", *arguments, "--quiet"])


def test_requests_are_advised_from_files_of_usage(usage: str) -> None:
    result = run(usage)
    assert result.exit_code == 0, result.stderr
    assert "shop/web app" in result.stdout
    assert "2 workloads, 2 containers" in result.stdout
    assert "the current requests are unknown" in " ".join(result.stdout.split())


def test_fractions_and_limits_of_a_trace_are_of_the_machine_that_is_given(tmp_path: Path) -> None:
    rows = "".join(f"{900 * number},0.25,0.5\n" for number in range(192))
    (tmp_path / "trace.csv").write_text(f"timestamp,cpu_fraction,cpu_limit_fraction\n{rows}")
    result = run(str(tmp_path), "--machine=8,32Gi")
    assert result.exit_code == 0, result.stderr
    assert "4 -> 2.41" in result.stdout


def test_any_recommender_may_be_asked_and_set(usage: str) -> None:
    low, high = (
        json.loads(run(usage, "-o", "json", f"--set=percentile={percentile}").stdout)["workloads"][0]["containers"][0]
        for percentile in ("0.5", "0.99")
    )
    assert float(low["cpu"]["found"].removesuffix("m")) < float(high["cpu"]["found"].removesuffix("m"))
    seasonal = json.loads(run(usage, "-o", "json", "--recommender=seasonal", "--set=horizon=2h").stdout)
    assert seasonal["recommender"] == "seasonal"
    assert seasonal["parameters"] == {"horizon": "2h"}


def test_a_recommender_of_another_package_may_be_asked(
    usage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    announce(tmp_path, "mine", {"mine": "trellis.core.recommend.recommenders.default:DefaultRecommender"})
    result = run(usage, "--recommender=mine", "--set=margin=1")
    assert result.exit_code == 0, result.stderr
    assert "shop/web app" in result.stdout


def test_namespaces_that_were_not_asked_about_are_left_out(usage: str) -> None:
    assert json.loads(run(usage, "-o", "json", "-n", "team-*").stdout)["workloads"] == []
    assert len(json.loads(run(usage, "-o", "json", "-n", "sh*").stdout)["workloads"]) == 2


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_can_be_had(form: str, asked: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "out"
    result = run("-o", form, "--output-file", str(path))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "checkout" in path.read_text()
    assert run("-o", form).stdout.strip() == path.read_text().strip()


def test_the_choices_of_options_are_the_supported_ones() -> None:
    assert tuple(FORMATS) == recommend.FORMATS
    assert tuple(ManifestForm) == recommend.MANIFEST_FORMS
    assert set(recommend.UPDATE_MODES) <= set(UPDATE_MODES)


def test_rules_bounds_and_prices_are_heeded(asked: dict[str, Any]) -> None:
    result = run("-o", "csv", "--limits=cpu=keep", "--min-cpu=50m", "--max-memory=1Gi", "--prices=1,0,EUR")
    rows = {(row["workload"], row["container"]): row for row in csv.DictReader(io.StringIO(result.stdout))}
    assert rows["checkout", "app"]["cpu_limit"] == "2"
    assert rows["checkout", "proxy"]["cpu_request"] == "0.05"
    assert rows["checkout", "app"]["memory_request"] == str(2**30)
    assert float(rows["search", "engine"]["money_month"]) == pytest.approx(-33 * 730)
    assert "OverRequested" not in run("-o", "csv", "--tolerance=100%").stdout
    assert "LowConfidence" not in run("-o", "csv", "--min-history=1h").stdout


@pytest.mark.parametrize(("limit", "code"), [("20%", 1), ("0.2", 1), ("56%", 0), ("100%", 0)])
def test_unneeded_requests_above_the_limit_fail(limit: str, code: int, asked: dict[str, Any]) -> None:
    result = run("--fail-on-savings", limit)
    assert result.exit_code == code
    assert ("55.4 % of the cost of all requests can be saved" in result.stderr) == bool(code)
    assert "shop/checkout" in result.stdout


def test_the_older_name_of_the_limit_works_and_is_hidden(asked: dict[str, Any]) -> None:
    assert [run(f"--fail-over={limit}").exit_code for limit in ("20%", "100%")] == [1, 0]
    assert run("--fail-over=lots").exit_code == 2
    assert "--fail-over" not in run("--help").stdout


def test_a_survey_that_was_stopped_shows_what_there_is(asked: dict[str, Any]) -> None:
    asked["is_stopped"] = True
    result = run("--fail-on-savings=1%")
    assert result.exit_code == 130
    assert "shop/checkout" in result.stdout


def test_manifests_are_written_and_what_has_none_is_reported(asked: dict[str, Any], tmp_path: Path) -> None:
    result = run("--emit", "kustomize", str(tmp_path / "sizes"))
    assert result.exit_code == 0
    listed = yaml.safe_load((tmp_path / "sizes" / "kustomization.yaml").read_text())["patches"]
    assert all((tmp_path / "sizes" / patch["path"]).is_file() for patch in listed)
    assert "wrote 5 files below" in result.stderr
    again = run("--emit", "vpa", str(tmp_path / "sizes"), "--update-mode=Initial")
    assert "no file for Deployment shop/web: it already has a VerticalPodAutoscaler: web" in again.stderr
    manifest = yaml.safe_load((tmp_path / "sizes" / "shop" / "deployment-search.yaml").read_text())
    assert manifest["spec"]["updatePolicy"] == {"updateMode": "Initial"}
    assert not list((tmp_path / "sizes").rglob("*.part"))


def test_an_empty_survey_is_reported_and_fails_a_limit(asked: dict[str, Any]) -> None:
    asked["surveyed"] = SurveyResult(time=0.0, source="tests", recommender="default")
    result = run()
    assert result.exit_code == 0
    assert "No containers were found." in result.stdout
    judged = run("--fail-on-savings=0%")
    assert judged.exit_code == 2
    assert "--fail-on-savings: no container has both known requests and enough known usage" in judged.stderr


def test_containers_whose_requests_or_needs_are_unknown_pass_no_limit(usage: str, asked: dict[str, Any]) -> None:
    short = run("--fail-on-savings=100%", "--min-history=365d")
    assert "shop/checkout" in short.stdout
    assert short.exit_code == 2
    assert "--min-history" in short.stderr


def test_files_of_usage_have_no_requests_so_that_there_is_nothing_to_judge(usage: str) -> None:
    assert run(usage).exit_code == 0
    assert run(usage, "--fail-on-savings=50%").exit_code == 2


def test_finding_nothing_without_rights_is_an_error_without_a_report(asked: dict[str, Any]) -> None:
    missing = (MissingData("Pod", "shop", "may not be read"),)
    asked["surveyed"] = SurveyResult(time=0.0, source="tests", recommender="default", missing=missing)
    result = run("--fail-on-savings=50%")
    assert result.exit_code == 2
    assert "may not be read" in result.stderr
    assert "there is no workload to advise on" in result.stderr
    assert result.stdout == ""


def test_a_path_that_does_not_exist_is_an_error_without_a_report(tmp_path: Path) -> None:
    result = run(str(tmp_path / "nowhere"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nowhere: there is no such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limits=half"], '"half" is not a rule for limits'),
        (["--min-cpu=lots"], "not a quantity"),
        (["--min-cpu=0"], '"0" is no amount above zero'),
        (["--min-memory=2Gi", "--max-memory=1Gi"], "--min-memory is more than --max-memory"),
        (["--min-history=week"], '"week" is no duration such as 12h or 7d'),
        (["--fail-on-savings=150%"], '"150%" is no share between 0% and 100%'),
        (["--tolerance=nan"], '"nan" is no share'),
        (
            ["--prices=cheap"],
            "must be the prices of a core-hour and a GiB-hour, and optionally a currency, as in 0.0316,0.0042,USD",
        ),
        (["--emit", "patches", "/nowhere/dir"], "there is no directory /nowhere"),
        (["usage.csv", "--emit", "patches", "sizes"], "--emit needs a cluster or Prometheus"),
        (["--output-file=/nowhere/file"], "there is no directory /nowhere"),
        (["usage.csv", "--machine=64"], "must be cores and memory, as in 64,256Gi"),
        (["usage.csv", "--machine=0,256Gi"], "is no machine: both must be above zero"),
        (["--no-cluster"], "--no-cluster needs --prometheus-url"),
        (["--vpas", "--prometheus-url=http://x"], "--vpas reads everything from the cluster"),
        (["usage.csv", "--prometheus-url=http://x"], "give files with usage or options of Prometheus"),
        (["usage.csv", "--history=3d"], "--history: only for usage from Prometheus"),
        (["usage.csv", "--prometheus-tenant=a", "--resolution=1m"], "--prometheus-tenant, --resolution: only for"),
        (["usage.csv", "--prometheus-header=a: b"], "--prometheus-header: only for usage from Prometheus"),
        (["usage.csv", "-l", "a=b", "--kind=job"], "--selector, --kind: only for a cluster or Prometheus; files of"),
        (["usage.csv", "--job-grouping-labels=a"], "--job-grouping-labels: only for a cluster or Prometheus"),
        (["usage.csv", "--context=a", "--kubeconfig=b"], "only for a cluster; here usage is read from files"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recommender=seasonl"], 'flag --recommender: there is none of this name (did you mean "seasonal"?)'),
        (["--set=target-cpu-percentil=1"], "(did you mean target-cpu-percentile?)"),
        (["--set=percentile"], "must be written as parameter=value"),
        (["--no-cluster", "--prometheus-url=http://localhost:9", "-l", "a in"], "flag --selector: found the end where"),
        (
            ["--no-cluster", "--prometheus-url=http://localhost:9", "--job-grouping-labels=no key"],
            "flag --job-grouping-labels: is not a label key",
        ),
        (
            ["--no-cluster", "--prometheus-url=http://localhost:9", "--kind="],
            "flag --kind: is not a kind such as deployment",
        ),
    ],
)
def test_an_unanswerable_question_is_one_line(
    arguments: list[str], message: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [] if "--no-cluster" in arguments else [usage]
    with pytest.raises(SystemExit) as ended:
        main(["recommend", *files, "--quiet", *arguments])
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith("trellis: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_settings_of_prometheus_are_checked_before_any_query(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["recommend", "--no-cluster", "--prometheus-url=nowhere", "--quiet"])
    assert ended.value.code == 2
    assert "flag --prometheus-url: must be a URL such as" in capsys.readouterr().err


def test_an_unreachable_prometheus_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRELLIS_PROMETHEUS_RETRIES", "0")
    with pytest.raises(SystemExit) as ended:
        main(["recommend", "--no-cluster", "--prometheus-url=http://127.0.0.1:9", "--quiet"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("trellis: ")
    assert message.count("\n") == 1
