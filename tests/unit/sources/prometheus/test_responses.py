"""Responses of Prometheus are read and joined by container and time."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import PrometheusRefused
from trellis.sources.prometheus.responses import QueryResult, read_error, read_query_result
from trellis.sources.prometheus.samples import JoinedSeries, join_results

LABELS = ("namespace", "pod", "container")

# Answers of Prometheus 3.5, one of them with a warning.
MATRIX = b"""{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"container":"app",
"namespace":"shop","pod":"web-1"},"values":[[1785585600,"0.25"],[1785589200,"0.5000000000000001"]]},{"metric":{"container":"app",
"namespace":"shop","pod":"web-2"},"values":[[1785585600.781,"NaN"],[1785589200.781,"+Inf"],[1785592800.781,"1e-05"]]}]},
"warnings":["PromQL info: metric might not be a counter"]}"""
VECTOR = b"""{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","pod":"web-1"},
"value":[1785585600.781,"1"]},{"metric":{},"value":[1785585600.781,"-Inf"]}]}}"""
EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
SCALAR = b'{"status":"success","data":{"resultType":"scalar","result":[1785585600.781,"1"]}}'
HISTOGRAMS = b"""{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"histograms":
[[1785585600,{"count":"1","sum":"2"}]]},{"metric":{"pod":"b"},"values":[[1785585600,"1"]]}]}}"""


def same(result: Any, expected: list[float]) -> bool:
    return bool(np.array_equal(result, np.array(expected), equal_nan=True))


def test_a_matrix_is_read_series_by_series() -> None:
    response = read_query_result(MATRIX)
    assert [labels["pod"] for labels in response.labels] == ["web-1", "web-2"]
    assert response.counts.tolist() == [2, 3]
    assert response.owners.tolist() == [0, 0, 1, 1, 1]
    assert response.times.tolist() == [1785585600.0, 1785589200.0, 1785585600.781, 1785589200.781, 1785592800.781]
    assert same(response.values, [0.25, 0.5000000000000001, math.nan, math.nan, 1e-05])


def test_a_vector_is_read_as_one_sample_of_each_series() -> None:
    response = read_query_result(VECTOR)
    assert response.labels == [{"__name__": "up", "pod": "web-1"}, {}]
    assert response.counts.tolist() == [1, 1]
    assert same(response.values, [1.0, math.nan])


def test_a_response_without_series_and_series_without_numbers_are_read() -> None:
    assert len(read_query_result(EMPTY).labels) == 0
    response = read_query_result(HISTOGRAMS)
    assert (response.counts.tolist(), response.values.tolist()) == ([0, 1], [1.0])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (SCALAR, "the response is a scalar"),
        (b"<html>login</html>", "not one of Prometheus.*login"),
        (b'{"status":"success"}', "not one of Prometheus"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":1}}]}}', "not one of Prometheus"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1]}]}}', "not a time and a value"),
    ],
)
def test_a_response_that_is_not_of_prometheus_is_refused_with_an_excerpt(body: bytes, message: str) -> None:
    with pytest.raises(PrometheusRefused, match=message):
        read_query_result(body)


def test_an_error_is_read_if_it_is_one_of_prometheus() -> None:
    result = read_error(b'{"status":"error","errorType":"bad_data","error":"parse error"}')
    assert result
    assert (result.error_type, result.error) == ("bad_data", "parse error")
    assert read_error(b"<html>") is None
    assert read_error(b"{}") is None


def test_numbers_that_are_no_json_are_read() -> None:
    result = b'{"metric":{},"values":[[1,".5"],[2,"1e999"],[3,"nonsense"],[4,"7"]]}'
    response = read_query_result(b'{"status":"success","data":{"resultType":"matrix","result":[' + result + b"]}}")
    assert same(response.values, [0.5, math.nan, math.nan, 7.0])


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.lists(numbers, max_size=30), max_size=8), st.booleans())
def test_any_numbers_come_back_as_they_were_written(series: list[list[float]], complete: bool) -> None:
    def text(number: float) -> str:
        if math.isnan(number):
            return "NaN"
        return ("+Inf" if number > 0 else "-Inf") if math.isinf(number) else repr(number)

    start = 1785585600 if complete else 1785585600.25
    result = [
        {"metric": {"pod": f"p{n}"}, "values": [[start + 60 * k, text(value)] for k, value in enumerate(values)]}
        for n, values in enumerate(series)
    ]
    body = msgspec.json.encode({"status": "success", "data": {"resultType": "matrix", "result": result}})
    response = read_query_result(body)
    assert response.counts.tolist() == [len(values) for values in series]
    flat = [value if math.isfinite(value) else math.nan for values in series for value in values]
    assert same(response.values, flat)
    assert response.times.tolist() == [start + 60 * k for values in series for k in range(len(values))]


def test_a_long_response_is_read_in_parts_without_losing_samples() -> None:
    result = [{"metric": {}, "values": [[t, f"{n}.{t}"] for t in range(1000)]} for n in range(150)]
    body = msgspec.json.encode({"status": "success", "data": {"resultType": "matrix", "result": result}})
    assert len(body) > 2 << 20
    response = read_query_result(body)
    assert response.values.tolist() == [float(f"{n}.{t}") for n in range(150) for t in range(1000)]


def build_result(*series: tuple[str, dict[float, float]]) -> QueryResult:
    labels = [dict(zip(LABELS, name.split("/"), strict=False)) for name, _ in series]
    samples = [sample for _, values in series for sample in values.items()]
    columns = np.array(samples, dtype=np.float64).reshape(-1, 2)
    counts = np.array([len(values) for _, values in series], dtype=np.int64)
    return QueryResult(labels, counts, columns[:, 0], columns[:, 1])


def entries(joined: JoinedSeries) -> list[tuple[str, int, list[float]]]:
    names = ["/".join(joined.containers[row]) for row in joined.rows.tolist()]
    values = np.array(joined.columns).T.tolist()
    return list(zip(names, joined.ticks.tolist(), values, strict=True))


def test_cpu_and_memory_of_one_container_and_time_are_one_entry() -> None:
    cpu = build_result(("shop/web/app", {100.0: 1.0, 160.0: 2.0}))
    memory = build_result(("shop/db/pg", {160.0: 7.0}), ("shop/web/app", {100.0: 5.0, 160.0: 6.0}))
    joined = join_results([cpu, memory], LABELS, 100.0, 60.0)
    first, second, (name, tick, values) = entries(joined)
    assert [first, second] == [("shop/web/app", 0, [1.0, 5.0]), ("shop/web/app", 1, [2.0, 6.0])]
    assert (name, tick, same(values, [math.nan, 7.0])) == ("shop/db/pg", 1, True)
    samples = joined.build_samples(100.0 + 60.0 * joined.ticks.astype(np.float64), *joined.columns)
    assert (samples.namespaces, samples.pods) == (["shop"] * 3, ["web", "web", "db"])
    assert samples.containers == ["app", "app", "pg"]
    assert samples.times.tolist() == [100.0, 160.0, 160.0]


def test_series_without_a_container_are_counted_and_empty_entries_are_dropped() -> None:
    cpu = build_result(("shop/web", {100.0: 1.0}), ("shop/web/app", {100.0: math.nan, 160.0: 1.0}))
    joined = join_results([cpu, build_result()], LABELS, 100.0, 60.0)
    assert joined.unread == 1
    [(name, tick, values)] = entries(joined)
    assert (name, tick, same(values, [1.0, math.nan])) == ("shop/web/app", 1, True)


def test_nothing_joins_to_nothing() -> None:
    joined = join_results([build_result(), build_result()], LABELS, 100.0, 60.0)
    assert len(joined.build_samples(np.zeros(0), *joined.columns)) == 0


series = st.dictionaries(
    st.sampled_from(["a/b/c", "a/b/d", "e/b/c", "x/y/z"]),
    st.dictionaries(st.integers(0, 5), st.floats(0, 10), max_size=6),
    max_size=4,
)


@given(series, series)
def test_a_join_is_the_union_of_both_results(cpu: Any, memory: Any) -> None:
    def made(result: dict[str, dict[int, float]]) -> QueryResult:
        return build_result(
            *((name, {50.0 + 0.25 * t: v for t, v in sorted(item.items())}) for name, item in result.items())
        )

    joined = join_results([made(cpu), made(memory)], LABELS, 50.0, 0.25)
    result = {(name, tick): values for name, tick, values in entries(joined)}
    wanted = {(name, tick) for item in (cpu, memory) for name, values in item.items() for tick in values}
    assert result.keys() == wanted
    for (name, tick), values in result.items():
        expected = [item.get(name, {}).get(tick, math.nan) for item in (cpu, memory)]
        assert same(values, expected)
    order = list(zip(joined.rows.tolist(), joined.ticks.tolist(), strict=True))
    assert order == sorted(order)
