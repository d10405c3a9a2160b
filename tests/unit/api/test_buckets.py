"""How buckets divide: every worked number of the proposal."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import ONLY_HORIZONTAL, STORY_1, STORY_2, bucket
from trellis.api.buckets import find_falling_totals, find_gaps, get_outer_steps, list_replica_steps
from trellis.api.kinds.hvpa import Bucket

GIGA = 10**9


def read(written: object) -> Bucket:
    return msgspec.convert(written, Bucket)


FIRST = read(bucket((2, 5), ("3", "6"), ("2.5G", "7G")))


def rounded(values: list[Fraction], unit: int = 1) -> list[float]:
    return [round(float(value / unit), 3) for value in values]


@pytest.mark.req("HV-04")
def test_totals_of_a_bucket_are_its_bounds_times_its_counts() -> None:
    low, high = get_outer_steps(FIRST, "cpu")
    assert [low.minimum_total, high.maximum_total] == [6, 30]
    low, high = get_outer_steps(FIRST, "memory")
    assert [low.minimum_total, high.maximum_total] == [5 * GIGA, 35 * GIGA]


@pytest.mark.req("HV-05")
def test_the_first_examples_steps() -> None:
    steps = list_replica_steps(FIRST, "cpu")
    assert [step.count for step in steps] == [2, 3, 4, 5]
    assert rounded([step.maximum for step in steps]) == [3.75, 4.5, 5.25, 6]
    assert rounded([step.maximum_total for step in steps]) == [7.5, 13.5, 21, 30]


@pytest.mark.req("HV-10")
def test_story_1s_cpu_steps_are_3_cores_each() -> None:
    steps = list_replica_steps(read(STORY_1), "cpu")
    assert [step.maximum for step in steps] == [3, 6, 9, 12, 15, 18, 21, 24]
    assert [step.maximum_total for step in steps] == [3, 12, 27, 48, 75, 108, 147, 192]


@pytest.mark.req("HV-11", "HV-12")
def test_story_1s_memory_steps_follow_the_stated_bounds() -> None:
    steps = list_replica_steps(read(STORY_1), "memory")
    widths = {later.maximum - earlier.maximum for earlier, later in pairwise(steps)}
    assert widths == {Fraction(30625, 10000) * GIGA}
    assert rounded([step.maximum for step in steps], GIGA) == [
        3.562, 6.625, 9.688, 12.75, 15.812, 18.875, 21.938, 25,
    ]  # fmt: skip
    exact = [Fraction(str(total)) * GIGA for total in (3.5625, 13.25, 29.0625, 51, 79.0625, 113.25, 153.5625, 200)]
    assert [step.maximum_total for step in steps] == exact


@pytest.mark.req("HV-18")
def test_story_2s_first_bucket_is_one_replica() -> None:
    (only,) = list_replica_steps(read(STORY_2[0]), "cpu")
    assert only.count == 1
    assert only.maximum_total == 1
    (only,) = list_replica_steps(read(STORY_2[0]), "memory")
    assert only.maximum_total == 2 * GIGA


@pytest.mark.req("HV-20", "HV-19")
def test_story_2s_second_bucket() -> None:
    steps = list_replica_steps(read(STORY_2[1]), "cpu")
    assert [step.count for step in steps] == [2, 3, 4, 5, 6, 7, 8]
    assert steps[1].maximum - steps[0].maximum == Fraction(8, 7)
    assert rounded([step.maximum_total for step in steps]) == [4.286, 9.857, 17.714, 27.857, 40.286, 55, 72]
    steps = list_replica_steps(read(STORY_2[1]), "memory")
    assert steps[1].maximum - steps[0].maximum == Fraction(18, 7) * GIGA
    assert rounded([step.maximum_total for step in steps], GIGA) == [9.143, 21.429, 38.857, 61.429, 89.143, 122, 160]


@pytest.mark.req("HV-27", "HV-26")
def test_a_bucket_of_one_size_only_counts() -> None:
    below, above = (list_replica_steps(read(written), "cpu") for written in ONLY_HORIZONTAL)
    assert rounded([step.maximum_total for step in below]) == [2.667, 10.667, 24]
    assert [step.maximum_total for step in above] == [32, 40, 48]
    assert {step.maximum for step in above} == {8}


@pytest.mark.req("HV-21")
def test_story_2_has_a_gap_between_its_buckets() -> None:
    buckets = [read(written) for written in STORY_2]
    assert find_gaps(buckets, "cpu") == [(1, Fraction(1), Fraction(2))]
    assert find_gaps(buckets, "memory") == [(1, Fraction(2 * GIGA), Fraction(4 * GIGA))]
    assert find_gaps([read(written) for written in ONLY_HORIZONTAL], "cpu") == [(1, Fraction(24), Fraction(32))]


@given(
    st.integers(1, 20), st.integers(0, 20), st.integers(0, 50), st.integers(0, 50), st.sampled_from(["cpu", "memory"])
)
def test_inside_a_bucket_totals_never_fall(first: int, more: int, low: int, width: int, resource: str) -> None:
    steps = list_replica_steps(read(bucket((first, first + more), (low, low + width), (low, low + width))), resource)
    totals = [step.maximum_total for step in steps]
    assert totals == sorted(totals)
    assert steps[-1].maximum == low + width
    assert get_outer_steps(read(bucket((first, first + more), (low, low + width), (low, low + width))), resource) == (
        steps[0],
        steps[-1],
    )


def test_falling_names_the_bucket_and_the_bound() -> None:
    buckets = [read(bucket((1, 2), ("2", "9"), (1, 9))), read(bucket((3, 4), ("1", "2"), (9, 9)))]
    assert find_falling_totals(buckets, "cpu") == [(1, "max"), (1, "min")]
    assert find_falling_totals(buckets, "memory") == []
