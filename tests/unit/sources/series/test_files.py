"""Series from files: what is read, under which names, and what is refused with file, row and column."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.base.errors import InternalError
from trellis.sources.series import csv_parser, parquet_files
from trellis.sources.series.files import find_parts, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import LoadedSeries
from trellis.sources.series.units import Machine

MIB = 2**20
PLAIN = "timestamp,cpu_cores,memory_bytes\n0,0.5,1000000\n60,0.25,2000000\n120,0.75,3000000\n"


def written(folder: Path, text: str | bytes, name: str = "usage.csv") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def read(*paths: str, machine: Machine = Machine()) -> LoadedSeries:  # noqa: B008
    parts = find_parts(paths)
    return LoadedSeries.concatenate(
        [LoadedSeries([], parts.problems, []), *(read_part(part, machine) for part in parts.parts)]
    )


def read_series(path: str) -> Series:
    [series] = read(path).series
    return series


def refusal(path: str) -> str:
    result = read(path)
    assert result.series == []
    [problem] = result.problems
    assert "\n" not in str(problem)
    return str(problem).replace(f'"{path}"', "FILE")


def test_a_table_of_one_series_is_named_after_its_file(tmp_path: Path) -> None:
    series = read_series(written(tmp_path, PLAIN, "shop.csv"))
    assert series.name == "shop"
    assert series.times.tolist() == [0.0, 60.0, 120.0]
    assert series.cpu.tolist() == [0.5, 0.25, 0.75]
    assert series.memory.tolist() == [1e6, 2e6, 3e6]
    assert (series.interval, series.missing) == (60.0, 0.0)


def test_a_compressed_file_has_the_same_series(tmp_path: Path) -> None:
    plain = read_series(written(tmp_path, PLAIN, "a.csv"))
    packed = read_series(written(tmp_path, gzip.compress(PLAIN.encode()), "a.csv.gz"))
    assert packed.name == plain.name
    assert packed.cpu.tolist() == plain.cpu.tolist()


@pytest.mark.parametrize(
    "times",
    [
        ["1700000000", "1700000060"],
        ["1700000000000", "1700000060000"],
        ["2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z"],
        ["2023-11-14 22:13:20", "2023-11-14 22:14:20"],
        ["2023-11-14T23:13:20+01:00", "2023-11-14T22:14:20Z"],
        ["2023-11-14T22:13:20+00:00", "2023-11-14T22:14:20+00:00"],
    ],
)
def test_times_are_numbers_of_any_unit_or_dates(tmp_path: Path, times: list[str]) -> None:
    rows = "".join(f"{time},1,1e6\n" for time in times)
    series = read_series(written(tmp_path, f"time,cpu,memory\n{rows}"))
    assert series.times.tolist() == [1_700_000_000.0, 1_700_000_060.0]


def test_a_column_of_names_makes_several_series_in_any_order_of_rows(tmp_path: Path) -> None:
    rows = "0,b,1\n0,a,10\n60,b,2\n60,a,20\n"
    result = read(written(tmp_path, f"timestamp,series,cpu\n{rows}"))
    assert {item.name: item.cpu.tolist() for item in result.series} == {"b": [1.0, 2.0], "a": [10.0, 20.0]}
    assert not any(item.has_memory for item in result.series)


def test_namespace_pod_and_container_together_are_a_name(tmp_path: Path) -> None:
    rows = "0,shop,web-1,app,1\n60,shop,web-1,app,2\n0,shop,web-1,proxy,3\n60,shop,web-1,proxy,4\n"
    result = read(written(tmp_path, f"ts,namespace,pod,container,cpu\n{rows}"))
    assert [item.name for item in result.series] == ["shop/web-1/app", "shop/web-1/proxy"]


def test_units_are_in_the_names_of_columns_and_maxima_of_memory_come_first(tmp_path: Path) -> None:
    header = "timestamp;cpu_millicores;memory_bytes;memory_max_bytes"
    series = read_series(written(tmp_path, f"{header}\r\n0;500;1000000;2000000\r\n60;250;1000000;\r\n"))
    assert series.cpu.tolist() == [0.5, 0.25]
    assert series.memory.tolist() == [2e6, 1e6]


def test_fractions_are_of_the_machine_that_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp,cpu_fraction,memory_fraction\n0,0.5,0.25\n300,0.5,0.25\n")
    [series] = read(path, machine=Machine(8.0, 1024.0 * MIB)).series
    assert (series.cpu.tolist(), series.memory.tolist()) == ([4.0, 4.0], [256.0 * MIB] * 2)


def test_a_manifest_lists_files_and_names_series(tmp_path: Path) -> None:
    written(tmp_path, PLAIN, "set/x.csv")
    written(tmp_path, PLAIN, "set/unlisted.csv")
    written(tmp_path, "series_id,file\nshop,x.csv\n", "set/manifest.csv")
    assert [item.name for item in read(str(tmp_path)).series] == ["shop"]


def test_a_directory_without_a_manifest_is_read_completely_each_file_once(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN, "b/two.csv")
    written(tmp_path, PLAIN, "a/one.csv")
    written(tmp_path, PLAIN, ".hidden/three.csv")
    written(tmp_path, "no table", "a/readme.txt")
    assert [item.name for item in read(str(tmp_path), path).series] == ["one", "two"]


def test_a_parquet_file_is_read_in_parts_that_hold_whole_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ["a"] * 4 + ["b"] * 4
    table = pyarrow.table(
        {"series_id": names, "timestamp": [0, 60, 120, 180] * 2, "cpu_cores": [float(n) for n in range(8)]}
    )
    parquet.write_table(table, tmp_path / "usage.parquet", row_group_size=3)
    monkeypatch.setattr("trellis.sources.series.parquet_files._ROWS_TOGETHER", 1)
    assert len(find_parts([str(tmp_path)]).parts) == 1
    result = read(str(tmp_path))
    assert {item.name: item.cpu.tolist() for item in result.series} == {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}
    parquet.write_table(table, tmp_path / "usage.parquet", row_group_size=4)
    assert len(find_parts([str(tmp_path)]).parts) == 2
    assert [item.name for item in read(str(tmp_path)).series] == ["a", "b"]


@pytest.mark.parametrize("names", [[7, 7, 9, 9], [b"7", b"7", b"9", b"9"]], ids=["numbers", "bytes"])
def test_names_that_are_no_texts_keep_row_groups_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[object]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"series_id": names, "timestamp": [0, 60] * 2, "cpu_cores": [1.0, 2.0, 3.0, 4.0]})
    parquet.write_table(table, tmp_path / "usage.parquet", row_group_size=2)
    monkeypatch.setattr(parquet_files, "_ROWS_TOGETHER", 1)
    assert len(find_parts([str(tmp_path)]).parts) == 1
    assert {item.name: item.cpu.tolist() for item in read(str(tmp_path)).series} == {"7": [1, 2], "9": [3, 4]}


def test_parquet_columns_may_have_any_equivalent_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    seconds = [0, 60, 120, 180]
    forms = {
        "time": [
            pyarrow.array(seconds),
            pyarrow.array([1000 * item for item in seconds], pyarrow.timestamp("ms", tz="Europe/Berlin")),
            pyarrow.array([f"1970-01-01T00:{item // 60:02}:00Z" for item in seconds]),
        ],
        "pod": [pyarrow.array([7, 7, 9, 9]), pyarrow.array([b"7", b"7", b"9", b"9"]), pyarrow.array(list("7799"))],
        "cpu": [pyarrow.array([1, 2, 3, 4]), pyarrow.array([1.0, 2.0, 3.0, 4.0]).cast(pyarrow.decimal128(4, 2))],
    }
    rest = {"parts": pyarrow.array([{"a": 1, "b": 2}] * 4), "memory_bytes": pyarrow.nulls(4)}
    monkeypatch.setattr(parquet_files, "_PAIRS", 1)
    for number, (time, pod, cpu) in enumerate(product(*forms.values())):
        table = pyarrow.table(rest | {"timestamp": time, "namespace": ["a", "a", "b", "b"], "pod": pod, "cpu": cpu})
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(table, path, row_group_size=2)
        first, second = read(str(path)).series
        assert (first.name, second.name) == ("a/7", "b/9")
        assert (first.times.tolist(), second.cpu.tolist()) == ([0.0, 60.0], [3.0, 4.0])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0, None, 120], "row 2, column timestamp: the time is missing"),
        ([datetime(2026, 1, 1), None, datetime(2026, 1, 2)], "row 2, column timestamp: the time is missing"),
        ([True, False, True], "has values of type bool"),
    ],
)
def test_parquet_without_a_time_is_refused(tmp_path: Path, times: list[object], message: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"timestamp": times, "cpu": [1, 2, 3]}), tmp_path / "a.parquet")
    assert message in refusal(str(tmp_path / "a.parquet"))


def test_an_invalid_parquet_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert "FILE: is not a valid Parquet file" in refusal(written(tmp_path, "nonsense", "a.parquet"))


HEAD = "timestamp,cpu_cores,memory_bytes\n"
MIB_HEAD = "timestamp,cpu_cores,memory_mib\n"
SINCE_MILLISECONDS = "".join(f"{300_000 * number},1,1e6\n" for number in range(1440))
COUNTED = "".join(f"{300 * number},{1500 * number},1e6\n" for number in range(301))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "FILE: is empty: a header is needed, and a row for each sample"),
        (HEAD, "FILE: has a header and no samples"),
        ("tmestamp,cpu\n0,1\n", "FILE: has no column `timestamp`; is `tmestamp` meant to be `timestamp`? "),
        ("timestamp,disk\n0,1\n", "FILE: has no column `cpu_cores` or `memory_bytes`; its columns are timestamp, disk"),
        (
            f"{HEAD}0,1,1e6\n60,one,1e6\n",
            'FILE: row 3, column cpu_cores: "one" is neither a number nor a quantity such as 250m',
        ),
        (
            f"{HEAD}0,1,1Mi\n60,1,1MB\n",
            'row 3, column memory_bytes: "1MB" is neither a number nor a quantity such as 512Mi',
        ),
        (f"{HEAD}0,1m,1e6\n60,-1m,1e6\n", 'FILE: row 3, column cpu_cores: "-1m" is negative; usage cannot be negative'),
        (
            "timestamp,memory_mib\n0,9\n60,9Mi\n",
            'row 3, column memory_mib: "9Mi" has another unit than its column name',
        ),
        (
            "timestamp,cpu_millicores\n0,9m\n60,9m\n",
            '"9m" has another unit than its column name: rename the column to cpu_cores',
        ),
        (f"{HEAD}0,1,1e6\nlater,1,1e6\n", 'FILE: row 3, column timestamp: "later" is not a number'),
        (f"{HEAD}soon,1,1e6\nlater,1,1e6\n", 'FILE: row 2, column timestamp: "soon" is not a time: '),
        (f"{HEAD}0,1,1e6\n,1,1e6\n", "FILE: row 3, column timestamp: the time is missing"),
        (f"{HEAD}0,1,1e6\n60,1\n", "FILE: row 3 has 2 fields, and the header has 3"),
        (f'{HEAD}0,"1",1e6\n60,"1"\n', "FILE: row 3 has 2 fields, and the header has 3"),
        (f"{HEAD}0,1,1e6\n60,-1,1e6\n", "FILE: row 3, column cpu_cores: -1 is negative; usage cannot be negative"),
        (f"{HEAD}0,1,1e6\n60,1,inf\n", "FILE: row 3, column memory_bytes: usage cannot be infinite"),
        (f"{HEAD}60,1,1e6\n0,1,1e6\n", "FILE: row 3, column timestamp: earlier than row 2; sort the rows by time"),
        (f"{HEAD}0,1,1e6\n0,1,1e6\n", "FILE: row 3, column timestamp: the same time as in row 2"),
        (f"{HEAD}0,1,1e6\n", "FILE: has fewer than two samples"),
        (f"{HEAD}0,1,1e6\n\n60,1,1e6\n", "FILE: row 3 is empty"),
        ("timestamp,cpu,cpu\n0,1,2\n60,1,2\n", "FILE: has 2 columns `cpu`; remove all but one"),
        ("timestamp,io_seconds_total\n0,1\n60,9\n", "`io_seconds_total` is a counter; its rate is needed"),
        ("timestamp,cpu_seconds_total\n0,1\n", "FILE: has fewer than two samples"),
        ("timestamp,cpu_seconds_total\n0,1\n9,inf\n18,inf\n", "FILE: row 3, column cpu_seconds_total: usage cannot be"),
        ("timestamp,cpu_seconds_total\n60,1\n0,2\n9,3\n", "FILE: row 3, column timestamp: earlier than row 2"),
        (
            f"{HEAD}0,1,1e6\n1556693700,1,1e6\n",
            "FILE: row 3, column timestamp: 49.4 years after row 2; a series may cover 5",
        ),
        (
            f"{HEAD}{SINCE_MILLISECONDS}",
            "FILE: covers 13.7 years, and the maximum is 5: is column timestamp in seconds",
        ),
        (
            f"{HEAD}{COUNTED}",
            "FILE: column cpu_cores never falls, and has values such as 2.25e+05: if it counts seconds",
        ),
        (f"{HEAD}0,,NaN\n60,,\n", "FILE: has neither CPU nor memory: all fields are empty or NaN"),
        (f"{HEAD}0,2e9,0.5\n60,2e9,0.5\n", "FILE: column cpu_cores has values such as 2e+09, too large for cores but "),
        (f"{HEAD}0,2e9,\n60,2e9,\n", "right for bytes: are cpu_cores and memory_bytes swapped?"),
        (f"{HEAD}0,250000,1e9\n60,250000,1e9\n", "call it cpu_millicores if they are"),
        (f"{HEAD}0,0.5,512\n60,0.5,512\n", "call it memory_mib or memory_gib if they are"),
        (
            f"{HEAD}0,1,1e6\n60,1,1e16\n90,1,1e6\n",
            "FILE: row 3, column memory_bytes: 9.09e+03 TiB is more than a container",
        ),
        (f"{MIB_HEAD}0,1,3e8\n60,1,3e8\n", "FILE: column memory_mib has values such as 286 TiB, and no machine has so"),
    ],
)
def test_an_invalid_value_is_refused_with_file_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(written(tmp_path, text))


QUANTITIES = "timestamp,cpu,memory\n0,250m,512Mi\n60,1,1.5Gi\n120,,null\n180,1500000n,1e9\n"


def test_quantities_are_read_as_kubernetes_reads_them(tmp_path: Path) -> None:
    series = read_series(written(tmp_path, QUANTITIES))
    # Whole millicores, rounded up, as they come from the metrics API.
    assert series.cpu[[0, 1, 3]].tolist() == [0.25, 1.0, 0.002]
    assert series.memory[[0, 1, 3]].tolist() == [512 * MIB, 1536 * MIB, 1e9]
    assert np.isnan([series.cpu[2], series.memory[2]]).all()


def test_quantities_are_read_in_parquet_too(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"timestamp": [0, 60, 120], "cpu": ["250m", "1", None], "memory": ["512Mi", None, "1Gi"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    series = read_series(str(tmp_path / "a.parquet"))
    assert series.cpu[:2].tolist() == [0.25, 1.0]
    assert series.memory[[0, 2]].tolist() == [512 * MIB, 1024 * MIB]


def test_declared_requests_may_be_quantities(tmp_path: Path) -> None:
    text = "timestamp,cpu,cpu_request_cores,memory_limit_bytes\n0,1,500m,1Gi\n60,1,750m,1Gi\n"
    series = read_series(written(tmp_path, text))
    assert (series.declared.cpu_request, series.declared.memory_limit) == (0.75, 1024 * MIB)


def test_a_counter_of_cpu_seconds_is_converted_to_rates(tmp_path: Path) -> None:
    head = "timestamp,pod,container_name,container_cpu_usage_seconds_total,container_memory_working_set_bytes\n"
    a = ["0,a,c,100,1000000", "60,a,c,130,2000000", "120,a,c,,3000000", "180,a,c,190,4000000", "240,a,c,6,5000000"]
    b = ["0,b,c,5,1000000", "60,b,c,5,2000000", "120,b,c,65,3000000"]
    first, second = read(written(tmp_path, head + "\n".join(a + b) + "\n")).series
    assert (first.name, first.times.tolist()) == ("a", [60, 120, 180, 240])
    # Half a core, also over the row that says nothing; then the container began anew.
    assert first.cpu[[0, 2, 3]].tolist() == [0.5, 0.5, 0.1]
    assert np.isnan(first.cpu[1])
    assert first.memory.tolist() == [2e6, 3e6, 4e6, 5e6]
    assert (second.name, second.cpu.tolist()) == ("b", [0.0, 1.0])


def test_a_counter_is_ignored_beside_cores(tmp_path: Path) -> None:
    text = "timestamp,cpu_seconds_total,cpu_cores\n0,100,0.5\n60,160,0.25\n"
    assert read_series(written(tmp_path, text)).cpu.tolist() == [0.5, 0.25]


def test_a_manifest_may_have_quantities(tmp_path: Path) -> None:
    written(tmp_path, PLAIN, "a.csv")
    written(tmp_path, "series_id,file,cpu_request_cores,memory_request_bytes\na,a.csv,500m,1Gi\n", "manifest.csv")
    [series] = read(str(tmp_path)).series
    assert (series.declared.cpu_request, series.declared.memory_request) == (0.5, 1024 * MIB)
    written(tmp_path, "series_id,file,cpu_request_millicores\na,a.csv,500m\n", "manifest.csv")
    [problem] = read(str(tmp_path)).problems
    assert 'row 2, column cpu_request_millicores: "500m" is not an amount' in str(problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04\x14\x00", "FILE: is a spreadsheet or another archive: export it as CSV"),
        (b"PAR1\x15\x04", "FILE: is Parquet: rename it to end in .parquet"),
        (PLAIN.encode("utf-16"), "FILE: is UTF-16: save it as UTF-8"),
        (b'{"timestamp": 0}', "FILE: is JSON: give CSV or Parquet"),
    ],
)
def test_other_formats_are_reported_with_a_remedy(tmp_path: Path, content: bytes, message: str) -> None:
    assert refusal(written(tmp_path, content)) == message


@pytest.mark.parametrize("content", [b"plain text", gzip.compress(PLAIN.encode())[:-12]], ids=["plain", "cut short"])
def test_an_uncompressed_file_with_the_ending_gz_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "gzip" in refusal(written(tmp_path, content, "a.csv.gz"))


def test_a_missing_path_and_a_directory_without_tables_are_refused(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "none.csv")) == "FILE: there is no such file or directory"
    assert refusal(str(tmp_path)) == "FILE: has no files that end in .csv, .csv.gz or .parquet"


def test_an_unreadable_file_is_reported_and_affects_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, PLAIN, "open/a.csv")
    written(tmp_path, PLAIN, "locked/b.csv")
    below, there_is = Path.iterdir, Path.exists

    def refused(path: Path) -> PermissionError:
        return PermissionError(errno.EACCES, "Permission denied", str(path))

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "locked":
            raise refused(path)
        return below(path)

    def exists(path: Path) -> bool:
        if path.parent.name == "locked":
            raise refused(path)
        return there_is(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    monkeypatch.setattr(Path, "exists", exists)
    result = read(str(tmp_path), str(tmp_path / "locked" / "b.csv"))
    assert [series.name for series in result.series] == ["a"]
    assert [Path(str(problem.value)).name for problem in result.problems] == ["locked", "b.csv"]
    assert {problem.rule for problem in result.problems} == {"cannot be read: Permission denied"}


def test_an_invalid_series_of_a_file_affects_no_other(tmp_path: Path) -> None:
    rows = "0,bad,1\n60,bad,-1\n0,good,1\n60,good,2\n"
    result = read(written(tmp_path, f"timestamp,series,cpu\n{rows}"))
    assert [item.name for item in result.series] == ["good"]
    assert "row 3, column cpu (series bad): -1 is negative" in str(result.problems[0])


@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n\r\n", "", " \n"])
def test_empty_lines_at_the_end_are_ignored(tmp_path: Path, end: str) -> None:
    text = f"timestamp\tcpu\tmemory\n0\t1\t1e6\n60\t2\t{end}"
    assert read_series(written(tmp_path, text)).cpu.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("nothing", ["", "NaN", "null", "None", "NA", " n/a "])
def test_texts_for_missing_values_are_missing_values(tmp_path: Path, nothing: str) -> None:
    series = read_series(written(tmp_path, f"{HEAD}0,1,1e6\n60,{nothing},1e6\n"))
    assert np.isnan(series.cpu).tolist() == [False, True]


@pytest.mark.parametrize(
    ("header", "row", "cores", "size"),
    [
        ("cpu_avg_cores,cpu_max_cores,memory_avg_bytes,memory_max_bytes", "1,2,3e6,4e6", 1.0, 4e6),
        ("cpu_max_cores,memory_bytes", "2,3e6", 2.0, 3e6),
        ("cpu_millicores,memory_mb", "250,3", 0.25, 3e6),
        ("cpu_cores,memory_bytes,memory_max_fraction", "1,3e6,0.5", 1.0, 3e6),
        ("cpu_max_fraction,cpu_fraction,memory_max_fraction,memory_fraction", "0.5,0.25,0.5,0.1", 25.0, 256.0 * 2**30),
        ("cpu_usage_cores,memory_working_set_bytes,memory_limit_bytes", "1,3e6,9e6", 1.0, 3e6),
    ],
)
def test_averages_of_cpu_and_maxima_of_memory_are_found_by_name(
    tmp_path: Path, header: str, row: str, cores: float, size: float
) -> None:
    result = read(written(tmp_path, f"timestamp,{header}\n0,{row}\n60,{row}\n"))
    assert (result.series[0].cpu[0], result.series[0].memory[0]) == (cores, size)
    assert result.notes == []


def test_unknown_columns_of_a_resource_are_reported(tmp_path: Path) -> None:
    result = read(written(tmp_path, "timestamp,cpu_percent,memory_bytes\n0,50,1e6\n60,50,1e6\n"))
    assert len(result.series) == 1
    [note] = result.notes
    assert note.endswith("CPU is ignored: column cpu_percent is not known; `cpu_cores` would be")


def test_a_resource_that_is_not_used_is_reported(tmp_path: Path) -> None:
    [note] = read(written(tmp_path, f"{HEAD}0,0,1e6\n60,0,1e6\n")).notes
    assert "column cpu_cores is always 0" in note


def test_a_column_that_never_falls_is_reported_as_a_counter(tmp_path: Path) -> None:
    rows = "".join(f"{60 * number},{number},1e6\n" for number in range(100))
    [note] = read(written(tmp_path, HEAD + rows)).notes
    assert note.endswith("column cpu_cores never falls; if it counts seconds, call it cpu_seconds_total")


@pytest.mark.parametrize(
    "cores",
    [[float(number) for number in range(20)], [1.0] * 60 + [2.0] * 40],
    ids=["for a while", "with a few steps"],
)
def test_growing_usage_is_no_counter(tmp_path: Path, cores: list[float]) -> None:
    rows = "".join(f"{60 * number},{core},1e6\n" for number, core in enumerate(cores))
    assert read(written(tmp_path, HEAD + rows)).notes == []


def test_a_span_of_a_few_years_is_accepted(tmp_path: Path) -> None:
    rows = "".join(f"{43_200 * number},{1 + number % 2},1e6\n" for number in range(int(4.9 * 730)))
    result = read(written(tmp_path, HEAD + rows))
    assert (len(result.series), result.problems) == (1, [])


def test_gaps_and_unmeasured_values_are_reported_and_accepted(tmp_path: Path) -> None:
    rows = "0,1,1e6\n60,NaN,1e6\n120,1,1e6\n7320,1,1e6\n"
    result = read(written(tmp_path, HEAD + rows))
    assert len(result.series) == 1
    gap, unknown = result.notes
    assert gap.endswith("a gap of 2 h after row 4")
    assert unknown.endswith("column cpu_cores: 1 of 4 values are empty or NaN, the first in row 3")
    assert result.series[0].missing > 0.9


def test_binary_content_is_refused_without_printing_it(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "\x1b]0;owned\x07,time,cpu\n0,1,2\n"))
    assert message.endswith("row 1 is not text: character 1 is a control character")
    named = read(written(tmp_path, "timestamp,series,cpu\n0,\x1b[2Jbad,1\n60,\x1b[2Jbad,-1\n"))
    assert "(series \\x1b[2Jbad): -1 is negative" in str(named.problems[0])


amounts = st.floats(0.001, 1000.0).map(lambda value: round(value, 6))


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.tuples(st.sampled_from(["a", "b", "c/d"]), st.none() | amounts), min_size=2, max_size=30),
    size=st.integers(1, 60),
    quoted=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", " \n"]),
)
def test_any_table_is_read_in_blocks_of_any_size(
    values: list[tuple[str, float | None]], size: int, quoted: bool, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = '"' if quoted else ""
    rows = "".join(
        f"{60 * number},{mark}{name}{mark},{'' if value is None else value}{end}"
        for number, (name, value) in enumerate(values)
    )
    path = Path(written(tmp_path_factory.mktemp("any"), rows))
    form = csv_parser.CsvFormat("any", 3, ",", (0, 1, 2))
    with path.open("rb") as stream:
        pieces = list(csv_parser.read_blocks(form, stream, size))
    texts = [name.encode() for name, _ in values]
    assert np.concatenate([piece.columns[1] for piece in pieces]).tolist() == texts
    numbers = [text for piece in pieces for text in piece.columns[2].tolist()]
    assert [float(text) if text.strip() else None for text in numbers] == [value for _, value in values]
    assert pieces[0].first == 2


def test_series_of_unequal_columns_are_a_bug() -> None:
    with pytest.raises(InternalError, match="have lengths"):
        Series("a", np.zeros(2), np.zeros(1), np.zeros(2))
