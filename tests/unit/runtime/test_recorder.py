"""A recording is a file that outlives its writer, and never harms it."""

from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pytest

from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput, InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload, read_header, read_lines
from trellis.base.quantities import Quantity
from trellis.core.usage.columns import FloatColumn, IntColumn, RowKey
from trellis.runtime.recorder import NO_RECORDER, Recorder, RecorderSettings, open_recorder, read_recording

SETTINGS = RecorderSettings(record="there")


class Payload(msgspec.Struct, frozen=True):
    used: FloatColumn
    rows: IntColumn
    key: RowKey
    amount: Quantity
    length: Duration


PAYLOAD = Payload(
    np.array([0.1, np.nan, 1 / 3]),
    np.array([3, 1]),
    RowKey("shop", "web", "app"),
    Quantity.parse("1.5Gi"),
    Duration.from_seconds(90),
)


class Full(BytesIO):
    """A disk without room."""

    def write(self, _data: object) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_recordings_round_trip_exactly(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = open_recorder(str(path), "updater", SETTINGS)
    file.write("usage", PAYLOAD)
    file.close()
    (kind, first), (_, second) = read_lines(read_recording(path))
    header = read_header(kind, first)
    assert (header.component, header.settings) == ("updater", {"record": "there"})
    back = decode_payload(second, Payload)
    assert back.used.tobytes() == PAYLOAD.used.tobytes()
    assert back.rows.tolist() == [3, 1]
    assert (back.key, back.amount, back.length) == (PAYLOAD.key, PAYLOAD.amount, PAYLOAD.length)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_killed_writer_leaves_all_that_was_flushed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = open_recorder(str(path), "updater", SETTINGS)
    for number in range(100):
        file.write("number", number)
    file.flush()
    file.write("number", 100)
    kinds = [kind for kind, _ in read_lines(read_recording(path))]
    file.close()
    assert kinds == [HEADER, *["number"] * 100]


def test_an_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = open_recorder(str(path), "updater", SETTINGS)
    file.write("number", 1)
    file.write("number", 2)
    file.close()
    path.write_bytes(path.read_bytes()[:-4])
    assert [bytes(data) for _, data in read_lines(read_recording(path))][1:] == [b"1"]


def test_a_full_disk_ends_the_recording_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    file = Recorder(Full())
    for number in range(3):
        file.write("number", number)
        file.flush()
    file.close()
    assert not file.is_on
    assert [record.getMessage() for record in caplog.records] == ["writing the recording failed; recording stopped"]


def test_a_place_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"flag --record: cannot be written: No such file or directory"):
        open_recorder(str(tmp_path / "nowhere" / "a.jsonl"), "updater", SETTINGS)


def test_without_a_file_nothing_is_recorded() -> None:
    file = open_recorder("", "updater", SETTINGS)
    assert file is NO_RECORDER
    file.write("anything", object())
    file.close()


def test_an_invalid_gzip_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b'{"kind":"header"}\n')
    with pytest.raises(InvalidRecording, match=r"a\.jsonl\.gz.*cannot be read"):
        list(read_recording(path))
    path.write_bytes(gzip.compress(b"x" * 1000)[:15] + b"garbage in the middle")
    with pytest.raises(InvalidRecording, match="cannot be read"):
        list(read_recording(path))


def test_an_unencodable_payload_is_an_internal_error() -> None:
    with pytest.raises(NotImplementedError, match="object cannot be recorded"):
        encode_payload(object())
