"""Amounts as text and back, rounding, humanised memory, whole CPUs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trellis.base.quantities import Quantity
from trellis.core.recommend.amounts import (
    format_cpu_column,
    format_memory_column,
    parse_cpu_column,
    parse_memory_column,
)
from trellis.core.recommend.post_processing import humanize_memory, round_up, round_up_to_cores
from trellis.core.recommend.state.tables import has_integer_cpu_annotation

amounts = st.one_of(
    st.integers(0, 10**14),
    st.integers(0, 3000),
    st.builds(lambda count, power: min(count * 1024**power, 10**14), st.integers(0, 2000), st.integers(0, 4)),
    st.builds(lambda count, power: min(count * 1000**power, 10**14), st.integers(0, 2000), st.integers(0, 4)),
)


@pytest.mark.parametrize(
    ("millicores", "text"),
    [(25, "25m"), (1000, "1"), (1168, "1168m"), (0, "0"), (1e6, "1k"), (1e14, "100G"), (2_500_000, "2500")],
)
def test_cpu_is_written_as_upstream_writes_it(millicores: float, text: str) -> None:
    assert format_cpu_column(np.array([millicores])) == [text]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (262144000, "250Mi"),
        (1238659775, "1238659775"),
        (1e14, "97656250000Ki"),
        (0, "0"),
        (1000, "1k"),
        (1024, "1Ki"),
        (1023, "1023"),
        (1428076625.92, "1428076625920m"),
    ],
)
def test_memory_is_written_as_upstream_writes_it(size: float, text: str) -> None:
    assert format_memory_column(np.array([float(size)])) == [text]


@given(st.lists(amounts, max_size=20))
def test_every_text_equals_that_of_a_quantity(counts: list[int]) -> None:
    column = np.array(counts, dtype=np.float64)
    assert format_cpu_column(column) == [str(Quantity.from_milli(count)) for count in counts]
    assert format_memory_column(column) == [str(Quantity.from_units(count, binary=True)) for count in counts]


@example([72_057_594_037_929])
@given(st.lists(st.one_of(st.none(), amounts), max_size=20))
def test_formatted_amounts_are_parsed_again(counts: list[int | None]) -> None:
    column = np.array([math.nan if count is None else count for count in counts], dtype=np.float64)
    there = ~np.isnan(column)
    cpu = [text if known else None for text, known in zip(format_cpu_column(column), there, strict=True)]
    memory = [text if known else None for text, known in zip(format_memory_column(column), there, strict=True)]
    assert np.array_equal(parse_cpu_column(cpu), column, equal_nan=True)
    assert np.array_equal(parse_memory_column(memory), column, equal_nan=True)


def test_an_invalid_quantity_does_not_hide_the_others() -> None:
    result = parse_cpu_column(["250m", "1e1.5", None, "-3", "2"])
    assert np.array_equal(result, [250, np.nan, np.nan, np.nan, 2000], equal_nan=True)


def test_rounding_is_up_to_a_multiple_and_leaves_zero_and_nothing_alone() -> None:
    column = np.array([0, 1, 50, 51, np.nan])
    assert np.array_equal(round_up(column, 50), [0, 50, 50, 100, np.nan], equal_nan=True)
    assert round_up(column, 1) is column
    assert round_up(column, -4) is column


@pytest.mark.parametrize(
    ("size", "human"),
    [(262144000, "250.00Mi"), (1238659775, "1.15Gi"), (1536, "1.50Ki"), (500, "500"), (1e14, "90.95Ti")],
)
def test_humanised_memory_has_two_places_of_the_largest_unit(size: float, human: str) -> None:
    """And is then printed as any quantity of so much."""
    result = humanize_memory(np.array([float(size), np.nan]))
    assert format_memory_column(result)[0] == str(Quantity.parse(human))
    assert np.isnan(result[1])


def test_whole_cpus_are_rounded_up() -> None:
    assert np.array_equal(
        round_up_to_cores(np.array([25, 1000, 1001, 0, np.nan])), [1000, 1000, 2000, 0, np.nan], equal_nan=True
    )


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}, True),
        ({"vpa-post-processor.kubernetes.io/app_integerCPU": "yes"}, False),
        ({"vpa-post-processor.kubernetes.io/other_integerCPU": "true"}, False),
        ({}, False),
    ],
)
def test_the_integer_cpu_annotation_is_read(annotations: dict[str, str], expected: bool) -> None:
    assert has_integer_cpu_annotation(annotations, "app") is expected
