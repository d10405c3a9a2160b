"""Wrong input to every command: the answer names the option or file, the value and the rule, and is no traceback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trellis.cli.main import main

USAGE = "examples/backtest/usage.csv"
DUMP = "examples/explain/shop.jsonl"
SCENARIO = "examples/simulate/small.yaml"
BINARY = b"\x00\x01\x02\xff\xfe"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files that no command can read, and the examples."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, content in {
        "empty": b"",
        "binary": BINARY,
        "binary.csv": BINARY,
        "open.yaml": b"a: [1\n",
        "list.yaml": b"- 1\n",
        "other.csv": b"a,b\n1,2\n",
        "time.csv": b"timestamp,cpu_cores\nnoon,1\n",
        "value.csv": b"timestamp,cpu_cores\n2026-09-01T00:00:00Z,much\n2026-09-01T01:00:00Z,1\n",
        "header.csv": b"timestamp,cpu_cores\n",
        "not-a-dump": b'{"kind":"nope"}\n',
        "span.yaml": b"apiVersion: sim.trellis.x-k8s.io/v1alpha1\nkind: Scenario\nmetadata: {name: x}\n"
        b"spec: {duration: banana}\n",
        "type.yaml": b"apiVersion: sim.trellis.x-k8s.io/v1alpha1\nkind: Scenario\nmetadata: {name: x}\nspec: []\n",
        "settings.yaml": b"apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\nfoo: 1\n",
    }.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def refuse(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """The exit status, and what is written to standard error, on one line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    return ended.value.code, " ".join(errors.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Files of usage.
        (["recommend", "none.csv"], "none.csv: there is no such file or directory"),
        (["recommend", "directory"], "directory: has no files that end in .csv, .csv.gz or .parquet"),
        (["recommend", "empty"], "empty: is empty: a header is needed, and a row for each sample"),
        (["recommend", "binary.csv"], "binary.csv: row 1 is not text: byte 4 is not UTF-8"),
        (["recommend", "other.csv"], "other.csv: has no column `timestamp`; its columns are a, b"),
        (["recommend", "time.csv"], 'time.csv: row 2, column timestamp: "noon" is not a time'),
        (["recommend", "value.csv"], 'row 2, column cpu_cores: "much" is neither a number nor a quantity'),
        (["recommend", "header.csv"], "header.csv: has a header and no samples"),
        (["recommend", DUMP], "is JSON: give CSV or Parquet"),
        (["backtest", "none.csv"], '"none.csv": there is no such file or directory'),
        (["backtest", "binary"], '"binary": row 1 is not text: byte 4 is not UTF-8'),
        (["backtest"], "give files or directories with usage, - for standard input, or --prometheus-url"),
        # Options about usage.
        (["recommend", USAGE, "--recommender", "nope"], '"nope": flag --recommender: there is none of this name'),
        (["recommend", USAGE, "--set", "foo=1"], '"foo": flag --set: is not a parameter of this recommender'),
        (
            ["recommend", USAGE, "--set", "target-cpu-percentile=2"],
            '"target-cpu-percentile=2": flag --set: must be at most 1',
        ),
        (["recommend", USAGE, "--machine", "1"], '--machine: "1": must be cores and memory, as in 64,256Gi'),
        (["recommend", "--machine", "1,1Gi"], "--machine: only for files with usage"),
        (["recommend", USAGE, "--min-cpu", "banana"], '"banana": not a quantity; write a number and a suffix'),
        (["recommend", USAGE, "--limits", "foo"], '"foo" is not a rule for limits; the rules are none, request, keep'),
        (["recommend", USAGE, "--update-mode", "Initial"], "--update-mode: needs --emit vpa"),
        (["recommend", USAGE, "-o", "xml"], '"xml" is no format of this command; choose one of table, json, yaml'),
        (["recommend", "--vpas", "--set", "a=1"], "--set: --vpas reads recommendations and computes none"),
        (
            ["recommend", "--no-cluster", "--prometheus-url=http://x", "--context=a"],
            "--context: --no-cluster asks no API server",
        ),
        (["backtest", USAGE, "--step", "banana"], '--step: "banana" is no duration such as 1h or 7d'),
        (["backtest", USAGE, "--sweep", "default.percentile=a:b:c"], '--sweep: "a": must be a number'),
        (["backtest", USAGE, "--recommenders", "nope"], '"nope": --recommenders: unknown recommender; available:'),
        (["backtest", "--prometheus-url=http://x", "--machine=1,1Gi"], "--machine: only for files with usage"),
        # Scenarios, dumps and recordings.
        (["simulate"], "give one of: a SCENARIO, a dump with --dump, a recording with --replay"),
        (["simulate", "none.yaml"], "none.yaml: No such file or directory"),
        (["simulate", "directory"], "directory: Is a directory"),
        (["simulate", SCENARIO, "--only", "nope"], '"nope": flag --only: is not a variant of this scenario; it has'),
        (["simulate", SCENARIO, "--output-file", "directory"], "--output-file directory: is a directory; name a file"),
        (["simulate", "--dump", "not-a-dump"], "line 1 is not valid in a recording or a dump"),
        (["simulate", "--replay", DUMP, "--seed", "3"], "--seed: --replay repeats the decisions in a recording"),
        (["simulate", "--replay", DUMP, "-o", "csv"], "--replay has no format csv; choose one of table, json, yaml"),
        # Objects.
        (["explain", "vpa/web", "--dump", "directory"], "File 'directory' is a directory"),
        (["explain", "vpa/web", "--dump", "binary"], "line 1 is not valid in a recording or a dump"),
        (["explain", "vpa/web", "--dump", "empty"], "is empty: a recording begins with a header"),
        (
            ["explain", "vpa/nope", "--dump", DUMP],
            '"nope": there is no VerticalPodAutoscaler of that name in namespace',
        ),
        (
            ["explain", "vpa/web", "--dump", DUMP, "--context", "x"],
            "--context: only for a cluster; here the objects are",
        ),
        (["explain", "vpa/web", "--dump", DUMP, "--history", "3d"], "--history: only for a cluster; a dump brings its"),
        (["explain", "vpa/web", "--resolution", "1m"], "--resolution: needs --prometheus-url"),
        (["explain", "node/shop/n1", "--dump", DUMP], "a node is in no namespace: name it as in node/n1"),
        (["explain", "secret/x"], 'there is no kind "secret"; the kinds are vpa, hvpa, buffer, node, pod'),
        (["dump", "--history", "3d"], "--history: needs --prometheus-url"),
        (["check", "examples/web", "-n", "x", "--context", "y"], "--namespace, --context: needs --cluster"),
        (["top", "svc/web"], '"svc" is no kind of workload; name one as in deployment/web'),
        (["status", "--interval", "3"], "--interval: needs --watch"),
        (["status", "-A", "-n", "shop"], "-n names namespaces, and -A means all of them: give one of the two"),
        # Manifests to print.
        (["install", "--values", "none.yaml"], "--values none.yaml: there is no such file"),
        (["install", "--values", "directory"], "--values directory: is a directory; name a file"),
        (["install", "--values", "binary"], '"binary": line 1, column 1: '),
        (
            ["install", "--values", "open.yaml"],
            '"open.yaml": line 1, column 4: "a: [1": this bracket or quote is never',
        ),
        (["install", "--values", "list.yaml"], '"list.yaml": must be a YAML map of values'),
        (["install", "--set", "nope=1"], 'nope: Unknown field: there is no field "nope" here'),
        (["crds", "nope"], 'KIND: there is no kind "nope"; there are VerticalPodAutoscaler'),
        (["crds", "-n", "x", "-A"], "give one of the two"),
        (["crds", "-A"], "--all-namespaces: needs --downgrade-check"),
        (["crds", "--downgrade-check", "hvpa"], "--downgrade-check reads VerticalPodAutoscalers and checkpoints"),
        (["schema", "nope"], 'KIND: there is no kind "nope"; choose among VerticalPodAutoscaler'),
        (["examples", "--force"], "--force: needs --copy-to"),
        (["examples", "--copy-to", "new", "-o", "json"], "--output: with --copy-to nothing is listed"),
        # Components.
        (["run", "--config", "settings.yaml"], '"settings.yaml": line 3: foo: Unknown field: there is no field "foo"'),
        (["run", "--components", "nope"], "flag --components: nope is not a component; use recommender"),
        (
            ["recommender", "--recommender-interval=banana"],
            '"banana": flag --recommender-interval: a number is missing',
        ),
        (["updater", "--min-replicas=x"], '"x": flag --min-replicas: must be a whole number'),
        (["updater", "-A", "-n", "shop"], "give one of the two"),
        (["updater", "-n", "a b"], '"a b": flag --vpa-object-namespace: a b is not a valid namespace name'),
        # Options of kubectl, and of other commands.
        (["explain", "vpa/web", "-A"], "there is no option -A here: -n names one namespace"),
        (["check", "-f", "web.yaml"], "there is no option -f here: name the file alone, as in `trellis check FILE`"),
        (
            ["recommend", USAGE, "--html", "x.html"],
            "there is no option --html here: -o html selects the format, and --output-file names a file",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_is_refused_with_the_place_the_value_and_the_rule(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, errors = refuse(arguments, capsys)
    assert (status, message in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("span.yaml", 'span.yaml:4:8: error: spec.duration: Invalid value: "banana": must be a span such as 90s'),
        ("type.yaml", "type.yaml:4:1: error: spec: Invalid value: []: must be of type object, not array"),
        ("open.yaml", 'open.yaml:1:4: error: "a: [1": this bracket or quote is never closed'),
        ("empty", "empty:1:1: error: the file contains no Scenario; a simulation needs one"),
        ("examples/web/workload.yaml", "the file contains no Scenario; a simulation needs one"),
    ],
)
def test_a_wrong_scenario_has_findings(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, errors = refuse(["simulate", name], capsys)
    assert (status, message in errors) == (1, True), errors


def test_of_a_file_that_is_no_text_no_line_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "binary"])
    shown = capsys.readouterr().out
    assert ended.value.code == 1
    assert "binary:1:1: error:" in shown
    assert " | " not in shown


@pytest.mark.parametrize("name", ["recommend", "explain", "dump", "top", "status", "doctor", "crds", "check"])
def test_a_missing_kubeconfig_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"explain": ["vpa/web"], "crds": ["--downgrade-check"], "check": ["--cluster", "examples/web"]}
    status, errors = refuse([name, *words.get(name, []), "--kubeconfig", "none"], capsys)
    assert (status, '"none": no such file; name another with --kubeconfig or KUBECONFIG' in errors) == (2, True), errors
