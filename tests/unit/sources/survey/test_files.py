"""Files of usage as workloads: the meaning of names, and reports of invalid files."""

from __future__ import annotations

import math
from io import BytesIO
from itertools import combinations
from pathlib import Path

import pytest

from trellis.core.advice.survey.model import SurveyResult
from trellis.core.advice.survey.scope import WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.sources.series.files import find_parts, read_part
from trellis.sources.series.units import Machine
from trellis.sources.survey.files import survey_files

BEGIN = 1_785_000_000
MIB = 2**20


def table(*series: tuple[str, float, float], minutes: int = 600) -> str:
    rows = [
        f"{name},{BEGIN + 300 * number},{cpu},{memory}"
        for name, cpu, memory in series
        for number in range(minutes // 5)
    ]
    return "\n".join(["series,timestamp,cpu_cores,memory_bytes", *rows]) + "\n"


def surveyed(tmp_path: Path, choice: WorkloadFilter = WorkloadFilter(), **files: str) -> SurveyResult:  # noqa: B008
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return survey_files(
        find_parts([str(tmp_path)]), "usage", choice, SurveySettings(create_built_in_recommenders()["default"])
    )


def test_names_of_series_identify_workloads_and_containers(tmp_path: Path) -> None:
    text = table(
        ("shop/web/app", 0.2, 300 * MIB), ("shop/web/proxy", 0.1, MIB), ("db/postgres", 1, MIB), ("cache", 1, MIB)
    )
    result = surveyed(tmp_path, usage=text)
    assert [
        (workload.namespace, workload.name, [c.name for c in workload.containers]) for workload in result.workloads
    ] == [
        ("default", "cache", ["app"]),
        ("default", "db", ["postgres"]),
        ("shop", "web", ["app", "proxy"]),
    ]
    app = result.workloads[2].containers[0]
    assert app.estimate.target.cpu == pytest.approx(1.15 * 200, rel=0.1)
    assert app.estimate.target.memory == pytest.approx(1.15 * 300 * MIB, rel=0.1)
    assert math.isnan(app.request.cpu)
    assert (app.samples, app.highest.memory) == (120, 300 * MIB)
    assert result.time == BEGIN + 300 * 119
    assert not result.is_partial
    assert result.effort.samples == 4 * 2 * 120


def test_requests_and_limits_are_the_last_values_in_their_columns(tmp_path: Path) -> None:
    rows = "".join(
        f"{BEGIN + 300 * number},0.2,{MIB},{0.5 if number < 100 else 0.75},{64 if number < 100 else ''}\n"
        for number in range(120)
    )
    text = f"timestamp,cpu_cores,memory_bytes,cpu_limit_cores,memory_request_mib\n{rows}"
    [workload] = surveyed(tmp_path, web=text).workloads
    [container] = workload.containers
    assert workload.is_sized
    assert (container.request.cpu, container.limit.cpu) == (750.0, 750.0)
    assert container.request.memory == 64 * MIB
    assert math.isnan(container.limit.memory)


def test_a_manifest_declares_requests_where_files_do_not(tmp_path: Path) -> None:
    content = "shop/web/app,0.25,134217728,,\ndb/postgres,,,,\nunknown,1,1,1,1\n"
    manifest = f"series_id,cpu_request_cores,memory_request_bytes,cpu_limit_cores,memory_limit_bytes\n{content}"
    usage = table(("shop/web/app", 0.2, MIB), ("shop/web/proxy", 0.2, MIB), ("db/postgres", 1, MIB))
    result = surveyed(tmp_path, usage=usage, manifest=manifest)
    database, web = result.workloads
    assert (database.is_sized, web.is_sized) == (False, True)
    assert [container.request.cpu for container in web.containers] == [250.0, pytest.approx(math.nan, nan_ok=True)]
    assert web.containers[0].request.memory == 128 * MIB
    assert "the files do not contain the number of pods: add a column `pod`" in result.notes
    assert not any("requested" in note for note in result.notes)


def test_an_incomplete_manifest_row_is_ignored_and_the_first_of_two_units_counts(tmp_path: Path) -> None:
    manifest = "series_id,cpu_request_millicores,cpu_request_cores\nshop/cut\nshop/web/app,1,0.25\n"
    result = surveyed(tmp_path, usage=table(("shop/web/app", 0.2, MIB)), manifest=manifest)
    [web] = result.workloads
    assert [container.request.cpu for container in web.containers] == [250.0]
    assert result.missing == ()


def test_columns_of_a_file_override_the_manifest_and_a_single_file_has_none(tmp_path: Path) -> None:
    rows = "".join(f"{BEGIN + 300 * number},0.2,0.5\n" for number in range(120))
    manifest = "series_id,cpu_request_cores,memory_request_bytes\nweb,1,134217728\n"
    [workload] = surveyed(tmp_path, web=f"timestamp,cpu_cores,cpu_request_cores\n{rows}", manifest=manifest).workloads
    assert (workload.containers[0].request.cpu, workload.containers[0].request.memory) == (500.0, 128 * MIB)
    [alone] = find_parts([str(tmp_path / "web.csv")]).parts
    assert math.isnan(read_part(alone).series[0].declared.memory_request)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"series_id,cpu_request_cores\nweb,much\n", 'row 2, column cpu_request_cores: "much" is not an amount'),
        (b"series_id,cpu_request_cores\nweb,-1\n", 'row 2, column cpu_request_cores: "-1" is not an amount'),
        (b"series_id,cpu_request_cores\nweb,inf\n", 'row 2, column cpu_request_cores: "inf" is not an amount'),
        (b"\xff\xfe\x00", "is not a valid table"),
    ],
)
def test_an_invalid_manifest_is_reported(tmp_path: Path, manifest: bytes, message: str) -> None:
    (tmp_path / "manifest.csv").write_bytes(manifest)
    result = surveyed(tmp_path, web=table(("web", 0.2, MIB)))
    [missing] = result.missing
    assert missing.what.endswith("manifest.csv")
    assert message in missing.why


def test_fractions_are_of_the_machine_that_is_given(tmp_path: Path) -> None:
    rows = "".join(f"{BEGIN + 300 * number},0.5,0.5\n" for number in range(120))
    (tmp_path / "web.csv").write_text(f"timestamp,cpu_fraction,cpu_limit_fraction\n{rows}")
    asked = SurveySettings(create_built_in_recommenders()["default"])
    result = survey_files(find_parts([str(tmp_path)]), "usage", WorkloadFilter(), asked, Machine(4.0, 8e9))
    [container] = result.workloads[0].containers
    assert container.limit.cpu == 2000.0
    assert container.estimate.target.cpu == pytest.approx(1.15 * 2000, rel=0.1)


def test_namespaces_can_be_selected(tmp_path: Path) -> None:
    text = table(("shop/web/app", 0.2, MIB), ("office/web/app", 0.2, MIB))
    assert [
        workload.namespace for workload in surveyed(tmp_path, WorkloadFilter.parse(["of*"]), usage=text).workloads
    ] == ["office"]


def test_invalid_files_are_reported(tmp_path: Path) -> None:
    text = table(("shop/web/app", 0.2, MIB))
    result = surveyed(tmp_path, a=text, b=text, c="hello,world\n1,2\n")
    assert result.is_partial
    assert len(result.workloads) == 1
    twice, unreadable = sorted(result.missing, key=lambda item: "twice" not in item.why)
    assert "series shop/web/app occurs twice" in twice.why
    assert unreadable.what.endswith("c.csv")


def test_no_usage_at_all_is_reported(tmp_path: Path) -> None:
    result = surveyed(tmp_path, WorkloadFilter.parse(["nowhere"]), usage=table(("shop/web/app", 0.2, MIB)))
    assert result.workloads == ()
    assert result.notes == ("the files contain no usage of the selected namespaces and kinds",)


POD = "web-5d8f7c9b64-x7k2p"
VALUES = {"namespace": "shop", "workload": "web", "pod": POD, "container": "app"}
COMBINATIONS = [
    columns
    for count in range(1, len(VALUES) + 1)
    for columns in combinations(VALUES, count)
    if columns != ("namespace",)
]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("columns", COMBINATIONS, ids=" ".join)
def test_each_combination_of_columns_identifies_the_workload(
    tmp_path: Path, columns: tuple[str, ...], form: str
) -> None:
    header, row = ",".join(columns), ",".join(VALUES[column] for column in columns)
    lines = [f"{row},{BEGIN + 300 * number},0.2,{300 * MIB}" for number in range(120)]
    _write_table(tmp_path / f"usage.{form}", f"{header},timestamp,cpu_cores,memory_bytes", lines)
    [workload] = surveyed(tmp_path).workloads
    names_workload = "workload" in columns or "pod" in columns
    assert (workload.namespace, workload.name) == (
        "shop" if "namespace" in columns else "default",
        "web" if names_workload else "app",
    )
    assert [container.name for container in workload.containers] == ["app"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_pods_of_a_workload_are_added_up_and_those_at_the_end_counted(tmp_path: Path, form: str) -> None:
    """The first pod of a rollout ends when the other two start; all three are the history of one workload."""
    lines = [
        f"shop,{pod},{container},{BEGIN + 300 * number},{cpu},{300 * MIB}"
        for pod, cpu, numbers in (
            ("web-5d8f7c9b64-x7k2p", 0.4, range(60)),
            ("web-6c4b9f7d88-bbbbb", 0.2, range(60, 120)),
            ("web-6c4b9f7d88-ccccc", 0.2, range(60, 120)),
        )
        for container in ("app", "proxy")
        for number in numbers
    ]
    _write_table(tmp_path / f"usage.{form}", "namespace,pod,container,timestamp,cpu_cores,memory_bytes", lines)
    [web] = surveyed(tmp_path).workloads
    assert (web.namespace, web.name, web.pods) == ("shop", "web", 2)
    assert [(c.name, c.samples) for c in web.containers] == [("app", 180), ("proxy", 180)]
    assert web.containers[0].highest.cpu == pytest.approx(400)
    # The 90th percentile of a history of which a third was at 400m.
    assert web.containers[0].estimate.target.cpu == pytest.approx(1.15 * 400, rel=0.1)


def test_pods_of_a_workload_may_be_in_several_files(tmp_path: Path) -> None:
    header = "namespace,workload,pod,container,timestamp,cpu_cores"
    files = {
        pod: "\n".join([header, *(f"shop,web,{pod},app,{BEGIN + 300 * number},0.2" for number in range(60))])
        for pod in ("web-0", "web-1")
    }
    for name, text in {**files, "web-0-again": files["web-0"]}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    result = surveyed(tmp_path)
    [web] = result.workloads
    assert (web.name, web.pods, web.containers[0].samples) == ("web", 2, 120)
    assert [item.why for item in result.missing] == ["series shop/web/web-0/app occurs twice"]
    assert not any("how many pods" in note for note in result.notes)


def test_a_name_with_a_slash_in_a_column_is_not_split(tmp_path: Path) -> None:
    lines = [f"team/shop,web,{BEGIN + 300 * number},0.2" for number in range(60)]
    _write_table(tmp_path / "usage.csv", "namespace,workload,timestamp,cpu_cores", lines)
    [web] = surveyed(tmp_path).workloads
    assert (web.namespace, web.name) == ("team/shop", "web")


def _write_table(path: Path, header: str, lines: list[str]) -> None:
    text = "\n".join([header, *lines]) + "\n"
    if path.suffix == ".csv":
        path.write_text(text)
        return
    parquet, csv = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.csv")
    parquet.write_table(csv.read_csv(BytesIO(text.encode())), path)


def test_the_usage_of_a_container_is_summarised_over_the_time_of_its_series(tmp_path: Path) -> None:
    [workload] = surveyed(tmp_path, usage=table(("shop/web/app", 0.2, MIB))).workloads
    summary = workload.containers[0].usage
    assert summary is not None
    assert summary.start == BEGIN
    assert set(summary.cpu.tolist()) == {200.0}
    assert set(summary.memory.tolist()) == {float(MIB)}
