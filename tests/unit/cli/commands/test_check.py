"""`trellis check` as a user runs it."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trellis.cli.main import trellis

GOOD = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
BAD = GOOD + "  updatePolicy: {updateMode: Sometimes}\n"
WARNED = GOOD + "  updatePolicy: {updateMode: Auto}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(trellis, ["check", *arguments], input=stdin)


def test_good_manifests_exit_with_0_and_a_line(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(GOOD)
    result = run("vpa.yaml")
    assert result.exit_code == 0
    assert result.output == "1 object in 1 file: no problems\n"


def test_errors_exit_with_1_and_have_positions(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(BAD)
    result = run("vpa.yaml")
    assert result.exit_code == 1
    first, line, caret, last = result.output.splitlines()
    assert first.startswith('vpa.yaml:6:18: error: spec.updatePolicy.updateMode: Unsupported value: "Sometimes"')
    assert first.endswith("[Unsupported] (VerticalPodAutoscaler web, document 1)")
    assert line == "     6 |   updatePolicy: {updateMode: Sometimes}"
    assert caret == "       |                  ^"
    assert line[caret.index("^") :].startswith("updateMode")
    assert last == "1 object in 1 file: 1 error, 0 warnings"


def test_warnings_exit_with_0_unless_strict(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(WARNED)
    assert run("vpa.yaml").exit_code == 0
    assert "warning" in run("vpa.yaml").output
    assert run("--strict", "vpa.yaml").exit_code == 1


def test_a_directory_without_objects_of_our_kinds_is_reported(folder: Path) -> None:
    result = run(".")
    assert result.exit_code == 0
    assert result.output == "0 objects in 0 files: nothing to check\n"


@pytest.mark.parametrize("other", [None, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"])
def test_strict_fails_if_there_is_nothing_to_check(folder: Path, other: str | None) -> None:
    if other is not None:
        (folder / "other.yaml").write_text(other)
    result = run("--strict", ".")
    assert result.exit_code == 2
    assert "nothing to check" in result.stdout
    assert "there is no VerticalPodAutoscaler, Hvpa, Buffer or other object that is checked in ." in result.stderr
    assert run(".").exit_code == 0


def test_standard_input_is_a_dash() -> None:
    result = run("-", stdin=BAD)
    assert result.exit_code == 1
    assert result.output.startswith("<stdin>:6:18: error:")


def test_a_directory_is_read_with_everything_below_it_except_hidden_ones(folder: Path) -> None:
    for name in ("a/vpa.yml", "a/b/vpa.json", "vpa.yaml", ".git/vpa.yaml", "notes.txt"):
        path = folder / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GOOD.replace("{name: web}\n", f"{{name: vpa-{len(name)}}}\n"))
    result = run("set")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].startswith("3 objects in 3 files")


def test_an_unreadable_directory_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "manifests" / "locked").mkdir(parents=True)
    (folder / "manifests" / "web.yaml").write_text(GOOD)
    scan = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = run("manifests")
    assert result.exit_code == 2
    assert "Error: manifests/locked: Permission denied" in result.output


def test_a_file_given_twice_is_read_once(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(GOOD)
    assert run("vpa.yaml", "./vpa.yaml", ".").output == "1 object in 1 file: no problems\n"


def test_a_file_that_is_no_manifest_is_ignored_in_a_directory_and_refused_if_named(folder: Path) -> None:
    (folder / "values.yaml").write_text("replicas: 3\n")
    assert run(".").exit_code == 0
    result = run("values.yaml")
    assert result.exit_code == 1
    assert "not a Kubernetes object" in result.output


def test_a_missing_file_is_a_usage_error(folder: Path) -> None:
    result = run("nowhere.yaml")
    assert result.exit_code == 2
    assert "nowhere.yaml: there is no such file or directory" in result.output


def test_json_has_every_part_of_a_finding(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(BAD)
    result = run("-o", "json", "vpa.yaml")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert (report["files"], report["objects"], report["errors"], report["warnings"]) == (1, 1, 1, 0)
    (finding,) = report["findings"]
    assert finding | {"message": ""} == {
        "file": "vpa.yaml",
        "document": 1,
        "line": 6,
        "column": 18,
        "severity": "error",
        "reason": "Unsupported",
        "object": "VerticalPodAutoscaler web",
        "path": "spec.updatePolicy.updateMode",
        "message": "",
    }


def test_sarif_points_at_the_line_and_describes_its_rules(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(BAD + "  typo: 1\n")
    report = json.loads(run("-o", "sarif", "vpa.yaml").output)
    assert report["version"] == "2.1.0"
    (sarif,) = report["runs"]
    rules = {rule["id"]: rule for rule in sarif["tool"]["driver"]["rules"]}
    assert set(rules) == {"Unsupported", "UnknownField"}
    first = sarif["results"][0]
    assert first["level"] == "error"
    assert sarif["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "Unsupported"
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "vpa.yaml"}, "region": {"startLine": 6, "startColumn": 18}}


def test_sarif_names_files_as_uris(folder: Path) -> None:
    (folder / "my vpa.yaml").write_text(BAD)
    (result,) = json.loads(run("-o", "sarif", "my vpa.yaml").output)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20vpa.yaml"


def test_there_is_no_colour_where_there_is_no_terminal(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(BAD)
    assert "\x1b" not in run("vpa.yaml").output


def test_explain_says_what_an_object_will_do_and_what_a_refused_one_will_not(folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bad.yaml").write_text(BAD.replace("{name: web}\nspec", "{name: bad}\nspec"))
    output = run("--explain", "good.yaml", "bad.yaml").output
    assert "VerticalPodAutoscaler web (good.yaml)\n  New pods of Deployment web get the recommended requests" in output
    assert "VerticalPodAutoscaler bad (bad.yaml)\n  Does nothing: it is refused, see below.\n" in output


def test_explanations_fit_the_terminal_and_are_lines_for_programs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "web.yaml").write_text(GOOD + "  updatePolicy: {updateMode: InPlaceOrRecreate}\n")
    plain = run("--explain", "web.yaml").output.splitlines()
    assert max(map(len, plain)) > 50
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    trellis.main(["check", "--explain", "web.yaml"], standalone_mode=False)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 50
    assert " ".join(shown).split() == " ".join(plain).split()


def test_explanations_are_in_the_json_too_and_refused_in_sarif(folder: Path) -> None:
    (folder / "vpa.yaml").write_text(GOOD)
    (explained,) = json.loads(run("--explain", "-o", "json", "vpa.yaml").output)["explanations"]
    assert explained["object"] == "VerticalPodAutoscaler web"
    assert explained["sentences"][-1] == "The recommender default computes the recommendation."
    assert run("--explain", "-o", "sarif", "vpa.yaml").exit_code == 2


def test_a_configuration_file_is_checked_and_its_effect_described(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: config.trellis.k8s.io/v1alpha1\nkind: TrellisConfiguration\nreadOnly: 3\n")
    result = CliRunner().invoke(trellis, ["check", str(file)])
    assert result.exit_code == 1
    assert "write config.trellis.x-k8s.io/v1alpha1 [UnknownKind]" in result.stdout
    assert "3:1: error: readOnly: Invalid value: 3: must be of type boolean, not integer" in result.stdout
    assert "1 object in 1 file: 2 errors, 0 warnings" in result.stdout
    file.write_text("apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\nreadOnly: true\n")
    result = CliRunner().invoke(trellis, ["check", "--explain", str(file)])
    assert "Sets what the components of Trellis do, for a command whose --config names the file." in result.stdout


def test_the_line_of_a_secret_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    head = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n"
    file.write_text(f"{head}recommender:\n  password: s3cret\n")
    for output in ("text", "json", "sarif"):
        result = CliRunner().invoke(trellis, ["check", "-o", output, str(file)])
        assert "recommender.passwordFile" in result.stdout
        assert "s3cret" not in result.stdout
