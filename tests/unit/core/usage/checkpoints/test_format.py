from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kinds.checkpoint import HISTORY_LENGTH, VerticalPodAutoscalerCheckpoint
from trellis.api.kube.decoder import decode_object
from trellis.api.registry import CHECKPOINT
from trellis.api.validation import validate
from trellis.base.errors import InvalidCheckpoint, InvalidInput, UnreadableObject
from trellis.base.names import check_dns_subdomain
from trellis.core.usage.checkpoints.format import (
    SavedRow,
    build_checkpoint_name,
    build_checkpoint_status,
    read_checkpoint,
)
from trellis.core.usage.columns import RowKey
from trellis.core.usage.histograms.bins import CPU_BINS
from trellis.core.usage.histograms.decaying_histograms import HistogramBank, SavedHistogram

KEY = RowKey("shop", "web", "nginx")
NOON = 1_763_380_800.0  # 2025-11-17T12:00:00Z
MIDNIGHT = NOON + 43_200

# As upstream's recommender writes it: a container that has used CPU for two days and not yet filled a memory window.
FROM_UPSTREAM = {
    "lastUpdateTime": "2025-11-17T12:00:31Z",
    "version": "v3",
    "cpuHistogram": {
        "referenceTimestamp": "2025-11-16T00:00:00Z",
        "bucketWeights": {"1": 10000, "2": 4213, "8": 12},
        "totalWeight": 288.71534,
    },
    "memoryHistogram": {"referenceTimestamp": None},
    "firstSampleStart": "2025-11-15T12:00:11Z",
    "lastSampleStart": "2025-11-17T12:00:22Z",
    "totalSamplesCount": 2881,
}


def document(status: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"namespace": "shop", "name": "web-nginx"},
        "spec": {"vpaObjectName": "web", "containerName": "nginx"},
        "status": status,
    }


def decoded(status: dict[str, Any] | None) -> VerticalPodAutoscalerCheckpoint:
    return decode_object(json.dumps(document(status)).encode(), VerticalPodAutoscalerCheckpoint)


def with_cpu(**changes: Any) -> dict[str, Any]:
    return FROM_UPSTREAM | {"cpuHistogram": FROM_UPSTREAM["cpuHistogram"] | changes}  # type: ignore[operator]


def refused(status: dict[str, Any] | None, now: float = math.nan) -> InvalidCheckpoint:
    with pytest.raises(InvalidCheckpoint) as caught:
        read_checkpoint(decoded(status), now)
    return caught.value


def test_upstreams_checkpoint_is_read() -> None:
    saved = read_checkpoint(decoded(FROM_UPSTREAM), NOON)
    assert saved.key == KEY
    assert (saved.first, saved.last, saved.count) == (NOON - 2 * 86_400 + 11, NOON + 22, 2881)
    assert saved.updated == NOON + 31
    assert saved.cpu == SavedHistogram(NOON - 1.5 * 86_400, {1: 10_000, 2: 4_213, 8: 12}, 288.71534)
    assert math.isnan(saved.memory.reference)
    assert (saved.memory.weights, saved.memory.total) == ({}, 0.0)
    assert (saved.cpu_total, saved.memory_total, saved.history) == (None, None, "")


def test_a_container_that_was_never_sampled_is_read() -> None:
    status = {"lastUpdateTime": "2025-11-17T12:00:31Z", "version": "v3", "firstSampleStart": None}
    saved = read_checkpoint(decoded(status | {"lastSampleStart": None, "cpuHistogram": {}}))
    assert saved.count == 0
    assert all(math.isnan(time) for time in (saved.first, saved.last, saved.cpu.reference, saved.memory.reference))


def test_gos_zero_time_is_no_time() -> None:
    saved = read_checkpoint(decoded(FROM_UPSTREAM | {"firstSampleStart": "0001-01-01T00:00:00Z"}))
    assert math.isnan(saved.first)


def test_a_checkpoint_is_written_in_upstreams_format() -> None:
    histogram = SavedHistogram(MIDNIGHT, {8: 10_000, 9: 1}, 0.25)
    saved = SavedRow(KEY, NOON - 60.25, NOON + 0.75, 2, NOON + 1, histogram, SavedHistogram())
    assert build_checkpoint_status(saved) == {
        "lastUpdateTime": "2025-11-17T12:00:01Z",
        "version": "v3",
        "cpuHistogram": {
            "referenceTimestamp": "2025-11-18T00:00:00Z",
            "bucketWeights": {"8": 10_000, "9": 1},
            "totalWeight": 0.25,
        },
        "memoryHistogram": {"bucketWeights": {}, "totalWeight": 0.0},
        "firstSampleStart": "2025-11-17T11:58:59Z",
        "lastSampleStart": "2025-11-17T12:00:00Z",
        "totalSamplesCount": 2,
    }


times = st.integers(0, 4_000_000_000).map(float)
histograms = st.builds(
    SavedHistogram,
    times,
    st.dictionaries(st.integers(0, CPU_BINS.bins - 1), st.integers(1, 10_000)),
    st.floats(0, 1e40),
)
saved_rows = st.builds(
    SavedRow,
    key=st.just(KEY),
    first=times,
    last=times,
    count=st.integers(0, 10**9),
    updated=st.just(4_000_000_000.0),
    cpu=histograms,
    memory=histograms,
    cpu_total=st.none() | histograms,
    memory_total=st.none() | histograms,
    history=st.text(alphabet="ab=/+", max_size=20),
)


@given(saved_rows)
def test_a_written_checkpoint_is_read_back(saved: SavedRow) -> None:
    status = build_checkpoint_status(saved)
    assert read_checkpoint(decoded(status)) == saved
    assert validate(CHECKPOINT, document(status)) == []


def test_a_row_survives_its_checkpoint() -> None:
    bank = HistogramBank(CPU_BINS, 86_400.0, rows_per_block=4)
    bank.reserve(2)
    rows = np.zeros(400, dtype=np.int64)
    bank.add(rows, np.linspace(NOON, NOON + 240_000, 400), np.linspace(0.01, 3, 400), 0.1)
    saved = SavedRow(KEY, NOON, NOON, 400, NOON, bank.save(rows[:1])[0], SavedHistogram())
    bank.load(1, read_checkpoint(decoded(build_checkpoint_status(saved))).cpu)
    both = np.array([0, 1])
    result = bank.percentiles([0.5, 0.9, 0.95], both)
    assert result[:, 0].tolist() == result[:, 1].tolist()
    assert bank.totals(both)[0] == bank.totals(both)[1]
    # A weight is right to half of a ten-thousandth of the heaviest, and scaled as a whole.
    weights = bank.weights(both)
    assert np.abs(weights[:, 0] - weights[:, 1]).max() < 1e-4 * weights.max()


@pytest.mark.parametrize(
    ("status", "field", "value"),
    [
        (None, "status.version", ""),
        ({"version": "v2"}, "status.version", "v2"),
        (FROM_UPSTREAM | {"totalSamplesCount": -1}, "status.totalSamplesCount", -1),
        (FROM_UPSTREAM | {"totalSamplesCount": 2**63}, "status.totalSamplesCount", 2**63),
        (FROM_UPSTREAM | {"lastSampleStart": "yesterday"}, "status.lastSampleStart", "yesterday"),
        (FROM_UPSTREAM | {"lastSampleStart": "2036-01-01T00:00:00Z"}, "status.lastSampleStart", "2036-01-01T00:00:00Z"),
        (with_cpu(bucketWeights={"176": 1}), "status.cpuHistogram.bucketWeights", "176"),
        (with_cpu(bucketWeights={"-1": 1}), "status.cpuHistogram.bucketWeights", "-1"),
        (with_cpu(bucketWeights={"0x10": 1}), "status.cpuHistogram.bucketWeights", "0x10"),
        (with_cpu(bucketWeights={"٣": 1}), "status.cpuHistogram.bucketWeights", "٣"),
        (with_cpu(bucketWeights={"07": 1, "7": 1}), "status.cpuHistogram.bucketWeights", "07"),
        (with_cpu(bucketWeights={"9" * 5000: 1}), "status.cpuHistogram.bucketWeights", "9" * 5000),
        (with_cpu(bucketWeights={"3": -5}), "status.cpuHistogram.bucketWeights[3]", -5),
        (with_cpu(bucketWeights={"3": 2**32}), "status.cpuHistogram.bucketWeights[3]", 2**32),
        (with_cpu(totalWeight=-0.5), "status.cpuHistogram.totalWeight", -0.5),
        (with_cpu(totalWeight=1e200), "status.cpuHistogram.totalWeight", 1e200),
        (with_cpu(referenceTimestamp=None), "status.cpuHistogram.referenceTimestamp", None),
        (
            with_cpu(referenceTimestamp="0001-01-01T00:00:00Z"),
            "status.cpuHistogram.referenceTimestamp",
            "0001-01-01T00:00:00Z",
        ),
        (with_cpu(referenceTimestamp="17.11.2025"), "status.cpuHistogram.referenceTimestamp", "17.11.2025"),
        (
            with_cpu(referenceTimestamp="9000-01-01T00:00:00Z"),
            "status.cpuHistogram.referenceTimestamp",
            "9000-01-01T00:00:00Z",
        ),
        (
            FROM_UPSTREAM | {"cpuTotalHistogram": {"bucketWeights": {"318": 1}}},
            "status.cpuTotalHistogram.bucketWeights",
            "318",
        ),
    ],
)
def test_a_corrupt_checkpoint_is_refused_with_field_value_and_rule(
    status: dict[str, Any] | None, field: str, value: object
) -> None:
    error = refused(status)
    assert isinstance(error, InvalidInput)
    assert error.field == field
    assert error.value == value
    assert field in str(error)
    assert len(str(error)) < 400


def test_an_error_has_the_expected_value() -> None:
    assert str(refused({"version": "v2"})) == '"v2": status.version must be "v3"'
    assert str(refused(with_cpu(bucketWeights={"176": 1}))) == (
        '"176": status.cpuHistogram.bucketWeights must have indexes of histogram bins '
        "in decimal, from 0 to 175, as keys"
    )


def test_a_fractional_weight_is_refused_by_the_decoder() -> None:
    with pytest.raises(UnreadableObject, match="bucketWeights"):
        decoded(with_cpu(bucketWeights={"3": 0.5}))


def test_a_number_that_json_does_not_have_is_refused() -> None:
    result = decoded(FROM_UPSTREAM)
    assert result.status is not None
    assert result.status.cpu_histogram is not None
    histogram = msgspec.structs.replace(result.status.cpu_histogram, total_weight=math.nan)
    status = msgspec.structs.replace(result.status, cpu_histogram=histogram)
    with pytest.raises(InvalidCheckpoint, match="totalWeight"):
        read_checkpoint(msgspec.structs.replace(result, status=status))


@pytest.mark.parametrize("field", ["vpaObjectName", "containerName"])
def test_a_checkpoint_without_its_owner_is_refused(field: str) -> None:
    nameless = document(FROM_UPSTREAM)
    nameless["spec"].pop(field)
    with pytest.raises(InvalidCheckpoint, match=f"spec.{field}"):
        read_checkpoint(decode_object(json.dumps(nameless).encode(), VerticalPodAutoscalerCheckpoint))


def test_future_times_in_a_checkpoint_are_refused_if_now_is_known() -> None:
    decade_ahead = {
        name: value.replace("2025-", "2035-") if isinstance(value, str) else value
        for name, value in with_cpu(referenceTimestamp="2035-11-16T00:00:00Z").items()
    }
    assert read_checkpoint(decoded(decade_ahead)).count == 2881
    assert refused(decade_ahead, NOON).field == "status.lastUpdateTime"
    without_update = {name: value for name, value in decade_ahead.items() if name != "lastUpdateTime"}
    assert refused(without_update, NOON).field == "status.firstSampleStart"


def test_a_reference_of_the_current_window_and_a_half_life_of_a_month_are_in_good_faith() -> None:
    ahead = with_cpu(referenceTimestamp="2025-12-10T00:00:00Z")
    assert read_checkpoint(decoded(ahead), NOON).cpu.reference > NOON


def test_a_checkpoint_has_upstreams_name() -> None:
    assert build_checkpoint_name("web", "nginx") == "web-nginx"
    longest = build_checkpoint_name("a" * 190, "b" * 62)
    assert longest == "a" * 190 + "-" + "b" * 62


@given(st.integers(180, 253), st.integers(1, 63), st.sampled_from("ab.-"))
def test_a_checkpoint_has_a_name_that_an_object_can_have(vpa: int, container: int, filling: str) -> None:
    vpas = ["a" + (f"{filling}a" * 130)[: vpa - 2] + end for end in "xy"]
    names = {build_checkpoint_name(item, "c" * container) for item in vpas}
    assert len(names) == 2
    if all(check_dns_subdomain(item) is None for item in vpas):
        assert [check_dns_subdomain(name) for name in names] == [None, None]


def test_history_has_at_most_sixteen_thousand_characters() -> None:
    saved = SavedRow(KEY, NOON, NOON, 1, NOON, SavedHistogram(), SavedHistogram(), history="x" * HISTORY_LENGTH)
    assert read_checkpoint(decoded(build_checkpoint_status(saved))).history == "x" * HISTORY_LENGTH
    assert validate(CHECKPOINT, document(build_checkpoint_status(saved))) == []
    too_long = msgspec.structs.replace(saved, history="x" * (HISTORY_LENGTH + 1))
    assert [problem.path for problem in validate(CHECKPOINT, document(build_checkpoint_status(too_long)))] == [
        ("status", "history")
    ]
