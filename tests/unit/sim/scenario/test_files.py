"""Scenarios in files: found, read with what lies beside them, and refused with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.sim.scenario.files import load_scenario

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "simulate"
GOOD = """\
apiVersion: sim.trellis.x-k8s.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  duration: 1h
  workloads:
    - name: web
      containers:
        - name: app
          usage:
            cpu: {trace: {file: usage.csv, series: web}}
  policies:
    - {name: p, files: [vpa.yaml]}
"""
USAGE = "timestamp,series_id,cpu_cores\n0,web,0.5\n60,web,0.7\n0,cache,1\n60,cache,1\n"
VPA = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: Off}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "usage.csv").write_text(USAGE)
    (tmp_path / "vpa.yaml").write_text(VPA.replace("Off", '"Off"'))
    path = tmp_path / "small.yaml"
    path.write_text(GOOD)
    return path


def lines(path: Path) -> list[str]:
    loaded = load_scenario(path)
    assert loaded.fleet is None
    return [
        f"{Path(finding.file).name}:{finding.line}: {finding.path}: {finding.message}" for finding in loaded.findings
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_can_be_played(path: Path) -> None:
    loaded = load_scenario(path)
    assert loaded.findings == ()
    assert loaded.fleet is not None
    assert len(loaded.fleet.variants) > 1


def test_the_demo_has_the_fleet_that_its_documentation_describes() -> None:
    fleet = load_scenario(EXAMPLES / "demo.yaml").fleet
    assert fleet is not None
    assert len(fleet.workloads) == 60
    assert (fleet.clock.step, fleet.clock.steps, fleet.intervals.recommender) == (300.0, 14 * 288, 600.0)
    assert [variant.name for variant in fleet.variants] == ["fixed", "default", "seasonal", "adaptive"]
    boosted = {vpa["metadata"]["name"] for vpa in fleet.variants[1].objects if "startupBoost" in vpa["spec"]}
    assert boosted == {workload.name for workload in fleet.workloads if workload.label == "slow-start"}


def test_files_beside_a_scenario_are_read(small: Path) -> None:
    fleet = load_scenario(small).fleet
    assert fleet is not None
    assert fleet.workloads[0].demand[0].cpu[:3].tolist() == [0.5, 0.7, 0.5]
    assert len(fleet.variants[1].objects) == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("series: web", "series: wep", '11: spec.workloads[0].containers[0].usage.cpu.trace.file: Invalid value: '
         '"usage.csv": has no series "wep" (did you mean "web"?); it has web, cache'),
        (", series: web", "", '11: spec.workloads[0].containers[0].usage.cpu.trace.file: Invalid value: '
         '"usage.csv": has 2 series; name one of them: web, cache'),
        ("usage.csv", "gone.csv", '11: spec.workloads[0].containers[0].usage.cpu.trace.file: Invalid value: '
         '"gone.csv": there is no such file or directory'),
        ("vpa.yaml", "gone.yaml", '13: spec.policies[0].files[0]: Invalid value: "gone.yaml": no such file'),
        ("duration: 1h", "duration: 1x", '5: spec.duration: Invalid value: "1x": must be a span such as'),
        ("kind: Scenario", "kind: ConfigMap", "1: : the file contains no Scenario; a simulation needs one;"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_with_file_line_and_field(small: Path, old: str, new: str, expected: str) -> None:
    small.write_text(GOOD.replace(old, new))
    (line,) = lines(small)
    assert line.startswith(f"small.yaml:{expected}")


def test_a_trace_with_a_bad_number_is_reported_with_its_row(small: Path) -> None:
    (small.parent / "usage.csv").write_text(USAGE.replace("0.7", "many"))
    (line,) = lines(small)
    assert '"usage.csv"' in line
    assert "row" in line


def test_another_series_that_cannot_be_used_is_no_hindrance(small: Path) -> None:
    (small.parent / "usage.csv").write_text(USAGE.replace("60,cache,1", "60,cache,-1"))
    assert load_scenario(small).findings == ()
    small.write_text(GOOD.replace("series: web", "series: cache"))
    (line,) = lines(small)
    assert "row 5, column cpu_cores (series cache): -1 is negative" in line
    small.write_text(GOOD.replace("series: web", "series: wep"))
    (line,) = lines(small)
    assert 'has no series "wep" (did you mean "web"?)' in line


def test_one_scenario_at_a_time(small: Path) -> None:
    small.write_text(GOOD + "---\n" + GOOD.replace("name: small", "name: other"))
    assert lines(small) == ["small.yaml:1: : the file contains 2 Scenarios; a simulation needs exactly one"]


def test_a_file_that_cannot_be_read_is_not_said_to_contain_no_scenario(small: Path) -> None:
    small.write_text(GOOD.replace("kind: Scenario", "  kind: Scenario"))
    (line,) = lines(small)
    assert line.startswith("small.yaml:2: ")
    assert "Scenario;" not in line


def test_errors_of_other_objects_do_not_hide_that_there_is_no_scenario(small: Path) -> None:
    small.write_text(
        "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web}\nspec: {}\n"
    )
    (line,) = lines(small)
    assert "the file contains no Scenario" in line


def test_a_misspelt_kind_is_named_beside_the_missing_scenario(small: Path) -> None:
    small.write_text(GOOD.replace("kind: Scenario", "kind: Scenarios"))
    assert [("Scenarios" in line, "no Scenario;" in line) for line in lines(small)] == [(True, False), (False, True)]
