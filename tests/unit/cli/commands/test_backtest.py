"""`trellis backtest`: files in, a table out, and exit codes that scripts can go by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.entry_points import announce
from trellis.base.errors import InvalidInput
from trellis.cli.main import main, trellis
from trellis.sim.backtest.limits import MEASURES

HEADER = "timestamp,series,cpu_cores,memory_bytes\n"


@pytest.fixture
def usage(tmp_path: Path) -> str:
    """Two series of two days, every half hour."""
    rows = [
        f"{1800 * number},{name},{level * (1 + number % 48 / 48):.3f},{5e8 + 1e6 * (number % 7):.0f}\n"
        for name, level in (("web", 0.5), ("db", 2.0))
        for number in range(96)
    ]
    path = tmp_path / "usage.csv"
    path.write_text(HEADER + "".join(rows))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["backtest", *arguments, "--quiet", "--processes=1", "--step=4h"])


def test_a_table_for_people_is_printed(usage: str) -> None:
    result = run(usage, "--recommenders=default", "--sweep=default.margin=0,1")
    assert result.exit_code == 0, result.stderr
    assert "2 series" in result.stdout
    assert "default margin=1" in result.stdout
    assert result.stderr == ""


def test_results_are_written_to_the_requested_files(usage: str, tmp_path: Path) -> None:
    html, table = tmp_path / "r.html", tmp_path / "r.csv"
    result = run(usage, "--recommenders=default", f"--html={html}", "--json=-", f"--csv={table}")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert [fact["name"] for fact in document["facts"]] == ["web", "db"]
    assert html.read_text().startswith("<!doctype html>")
    assert len(table.read_text().splitlines()) == 3


def test_a_file_that_cannot_be_used_is_reported_and_makes_the_exit_code_1(usage: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("timestamp,cpu\n0,1\n60,x\n")
    result = run(usage, str(bad), "--recommenders=default")
    assert result.exit_code == 1
    assert "2 series" in result.stdout
    assert 'row 3, column cpu: "x" is neither a number' in " ".join(result.stdout.split())


def test_nothing_to_score_is_reported_line_by_line_and_exits_with_2(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    result = run(str(empty), str(tmp_path / "none.csv"), "--recommenders=default")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.split('": ')[1].split(":")[0] for line in result.stderr.splitlines()] == [
        "there is no such file or directory",
        "is empty",
    ]


def test_a_limit_that_is_passed_fails(usage: str) -> None:
    arguments = (usage, "--recommenders=default", "--sweep=default.margin=1")
    passed = run(*arguments, "--fail-above=footprint=1.2")
    assert passed.exit_code == 1
    assert "default margin=1 has 1." in passed.stderr
    assert "times the footprint of default; the limit is 1.2" in passed.stderr
    assert run(*arguments, "--fail-above=footprint=2").exit_code == 0


def test_a_limit_without_any_score_fails(usage: str, tmp_path: Path) -> None:
    short = tmp_path / "short.csv"
    short.write_text("timestamp,cpu_cores\n0,1\n60,1\n")
    unscored = run(str(short), "--recommenders=default,seasonal", "--fail-above=footprint=1")
    assert unscored.exit_code == 2
    assert "--fail-above: nothing was scored for footprint: no series has enough CPU usage" in unscored.stderr
    assert run(str(short), "--recommenders=default,seasonal").exit_code == 0
    alone = run(usage, "--recommenders=default", "--fail-above=footprint=2")
    assert alone.exit_code == 2
    assert "no variant to compare with default" in alone.stderr


def test_a_limit_for_memory_fails_where_only_cpu_is_known(tmp_path: Path) -> None:
    rows = "".join(f"{900 * number},{1 + number % 96 / 96:.3f}\n" for number in range(192))
    (tmp_path / "cpu.csv").write_text("timestamp,cpu_cores\n" + rows)
    arguments = (str(tmp_path / "cpu.csv"), "--recommenders=default", "--sweep=default.margin=1")
    assert run(*arguments, "--fail-above=footprint=2").exit_code == 0
    result = run(*arguments, "--fail-above=kills=1")
    assert result.exit_code == 2
    assert "nothing was scored for kills: no series has enough memory usage" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give files or directories with usage, - for standard input, or"),
        (["a.csv", "--history=3d"], "--history: only for usage from Prometheus; here usage is read from files"),
        (["a.csv", "--namespace=shop"], "--namespace needs --prometheus-url; of files all series are scored"),
        (["a.csv", "--fail-above=speed=1"], "unknown measure speed; the measures are footprint, time-over"),
        (["a.csv", "--fail-above=kills"], '"kills": must be written as measure=ratio'),
        (["a.csv", "--warm-up=week"], '"week" is no duration such as 1h or 7d'),
        (["a.csv", "--machine=64"], "must be cores and memory, as in 64,256Gi"),
        (["a.csv", "--html=/nowhere/r.html"], "there is no directory /nowhere"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(trellis, ["backtest", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_report_that_cannot_be_written_is_no_verdict(usage: str) -> None:
    result = run(usage, "--recommenders=default", "--json=/dev/full")
    assert (result.exit_code, "No space left on device" in result.stderr) == (2, True)


def test_a_step_too_short_is_refused() -> None:
    result = CliRunner().invoke(trellis, ["backtest", "a.csv", "--step=1s"])
    assert '"1s" is too short, 60 s is the least' in result.stderr


def test_an_unknown_parameter_is_one_line_and_no_traceback(usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["backtest", usage, "--quiet", "--set", "default.margn=1", "--recommenders", "default"])
    assert ended.value.code == 2
    assert "(did you mean margin?)" in capsys.readouterr().err


def test_an_installed_recommender_is_scored_under_its_name(
    usage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    announce(tmp_path, "mine", {"mine": "trellis.core.recommend.recommenders.default:DefaultRecommender"})
    result = run(usage, "--recommenders=default,mine")
    assert result.exit_code == 0, result.stderr
    assert "\n  mine " in result.stdout


def test_ctrl_c_prints_finished_results_and_exits_with_130(usage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import contextlib
    from collections.abc import Callable, Iterator

    @contextlib.contextmanager
    def at_once(_message: str) -> Iterator[Callable[[], bool]]:
        left = iter(range(4))
        yield lambda: next(left, None) is None

    monkeypatch.setattr("trellis.cli.commands.backtest.catch_interrupt", at_once)
    result = run(usage, "--recommenders=default", "--sweep=default.margin=0:1:0.1")
    assert result.exit_code == 130
    assert "default" in result.stdout
    assert "default margin=1" not in result.stdout.replace("margin=0", "")


def test_settings_of_prometheus_are_checked_before_it_is_asked() -> None:
    with pytest.raises(InvalidInput, match="flag --prometheus-url: must be a URL such as"):
        CliRunner().invoke(trellis, ["backtest", "--prometheus-url=nowhere", "--quiet"], catch_exceptions=False)


def test_help_names_every_measure_that_can_be_limited() -> None:
    text = "".join(CliRunner().invoke(trellis, ["backtest", "--help"]).stdout.split())
    assert f"Measures:{','.join(MEASURES)}." in text
