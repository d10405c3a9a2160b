"""`-o` and `--output-file` in every command that prints a result, and the older spellings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trellis.cli.main import trellis

ROOT = Path(__file__).resolve().parents[3]
USAGE = str(ROOT / "examples/backtest/usage.csv")
SCENARIO = str(ROOT / "examples/simulate/small.yaml")
DUMP = str(ROOT / "examples/explain/shop.jsonl")
WEB = str(ROOT / "examples/web")
SIMULATE = ("simulate", SCENARIO, "--quiet", "--only", "fixed", "--processes", "1")
BACKTEST = ("backtest", USAGE, "--quiet", "--recommenders", "default", "--processes", "1")
RECOMMEND = ("recommend", USAGE, "--quiet")
EXPLAIN = ("explain", "vpa/web", "--dump", DUMP)
CHECK = ("check", WEB)
# The formats of each command, the one for people first.
FORMATS = {
    SIMULATE: "table json yaml csv html markdown",
    BACKTEST: "table json yaml csv html markdown",
    RECOMMEND: "table json yaml csv html markdown",
    EXPLAIN: "text json yaml",
    CHECK: "text json yaml sarif",
    ("recommenders",): "text json yaml",
    ("version", "--client"): "text json yaml",
    ("crds", "vpa"): "yaml json",
    ("schema", "vpa"): "json yaml",
}
COMMANDS = list(FORMATS)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(trellis, list(map(str, arguments)))


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_json_and_yaml_hold_the_same(command: tuple[str, ...]) -> None:
    as_json, as_yaml = run(*command, "-o", "json"), run(*command, "-o", "yaml")
    assert (as_json.exit_code, as_yaml.exit_code) == (0, 0), as_json.output
    document = json.loads(as_json.stdout)
    if command[0] == "crds":
        document = document["items"][0]
    if command[0] in ("recommenders", "recommend"):
        return
    read = yaml.safe_load(as_yaml.stdout)
    assert json.loads(json.dumps(read, default=str)).keys() == document.keys()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_gets_what_would_be_printed(command: tuple[str, ...]) -> None:
    for name in FORMATS[command].split():
        printed = run(*command, "-o", name)
        written = run(*command, "-o", name, "--output-file", f"result.{name}")
        assert (written.exit_code, written.stdout) == (0, ""), written.output
        assert written.stderr.endswith(f"wrote result.{name}\n")
        text = Path(f"result.{name}").read_text()
        assert text.splitlines()[0] == printed.stdout.splitlines()[0]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_wrong_format_is_refused_with_the_list(command: tuple[str, ...]) -> None:
    refused = run(*command, "-o", "xml")
    assert refused.exit_code == 2
    assert f'"xml" is no format of this command; choose one of {FORMATS[command].replace(" ", ", ")}' in " ".join(
        refused.stderr.split()
    )


def test_a_format_for_people_is_refused_where_there_is_none() -> None:
    assert '"table" is no format of this command; choose one of yaml, json' in " ".join(
        run("crds", "-o", "table").stderr.split()
    )


def test_a_format_is_no_file_of_a_dump() -> None:
    refused = run("dump", "-o", "json")
    assert (refused.exit_code, "a dump has one format, and -o names its file" in refused.stderr) == (2, True)


def test_the_ending_of_the_file_decides_where_no_format_is_given() -> None:
    assert run(*BACKTEST, "--output-file", "r.html").exit_code == 0
    assert Path("r.html").read_text().startswith("<!doctype html>")
    assert run(*RECOMMEND, "--output-file", "r.md").exit_code == 0
    assert Path("r.md").read_text().startswith("#")
    assert run(*EXPLAIN, "--output-file", "r.yml").exit_code == 0
    assert yaml.safe_load(Path("r.yml").read_text())["kind"] == "vpa"
    assert run(*EXPLAIN, "--output-file", "r.html").exit_code == 0  # no format of the command
    assert Path("r.html").read_text().startswith("VerticalPodAutoscaler shop/web")
    assert run(*EXPLAIN, "-o", "json", "--output-file", "r.yaml").exit_code == 0
    assert json.loads(Path("r.yaml").read_text())["kind"] == "vpa"


@pytest.mark.parametrize(
    ("command", "file"),
    [(SIMULATE, "r.html"), (BACKTEST, "r.md"), (RECOMMEND, "r.csv"), (EXPLAIN, "r.json"), (CHECK, "r.sarif")],
    ids=lambda value: value[0],
)
def test_what_people_read_is_printed_beside_a_file_whose_ending_selects_another_format(
    command: tuple[str, ...], file: str
) -> None:
    result = run(*command, "--output-file", file)
    assert (result.exit_code, result.stdout) == (0, run(*command).stdout)
    assert result.stderr.endswith(f"wrote {file}\n")
    assert Path(file).stat().st_size > 0
    assert run(*command, "--output-file", "r.txt").stdout == ""


def test_a_command_without_a_format_for_people_prints_nothing_beside_its_file() -> None:
    assert run("crds", "vpa", "--output-file", "r.json").stdout == ""
    assert json.loads(Path("r.json").read_text())["items"]


@pytest.mark.parametrize(("command", "word"), [(CHECK, "table"), (RECOMMEND, "text"), (BACKTEST, "TABLE")])
def test_text_and_table_mean_the_form_for_people(command: tuple[str, ...], word: str) -> None:
    assert run(*command, "-o", word).stdout == run(*command).stdout


def test_short_names_of_formats_are_understood() -> None:
    assert run(*EXPLAIN, "-o", "yml").stdout == run(*EXPLAIN, "-o", "yaml").stdout
    assert run(*RECOMMEND, "-o", "md").stdout == run(*RECOMMEND, "-o", "markdown").stdout


@pytest.mark.parametrize("command", [SIMULATE, BACKTEST], ids=lambda command: command[0])
def test_older_options_write_their_files_beside_the_table(command: tuple[str, ...]) -> None:
    result = run(*command, "--html", "a.html", "--json", "a.json", "--csv", "a.csv")
    assert (result.exit_code, result.stderr) == (0, "wrote a.html\nwrote a.json\nwrote a.csv\n")
    assert result.stdout == run(*command).stdout
    assert run(*command, "--csv", "-").stdout == Path("a.csv").read_text()
    for name in ("--html", "--json", "--csv"):
        assert name not in run(command[0], "--help").stdout


def test_the_older_flag_of_explain_prints_json() -> None:
    assert run(*EXPLAIN, "--json").stdout == run(*EXPLAIN, "-o", "json").stdout


def test_two_results_for_standard_output_are_refused() -> None:
    refused = run(*BACKTEST, "-o", "json", "--csv", "-")
    assert (refused.exit_code, "-o json and --csv cannot both go to standard output" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", [SIMULATE, EXPLAIN, RECOMMEND, CHECK], ids=lambda command: command[0])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(command: tuple[str, ...]) -> None:
    refused = run(*command, "--output-file", "nowhere/r.json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--output-file nowhere/r.json: there is no directory nowhere" in refused.stderr
