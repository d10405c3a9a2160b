"""Headers of files of JSON lines: which formats are read."""

from __future__ import annotations

import pytest

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, read_lines


def test_dumps_of_the_first_format_are_read() -> None:
    (line,) = read_lines(encode_line(HEADER, RecordingHeader(1, "dump")))
    assert line[0] == HEADER


@pytest.mark.parametrize(("component", "version"), [("dump", 0), ("dump", FORMAT_VERSION + 1), ("updater", 1)])
def test_files_of_another_format_are_refused_by_version(component: str, version: int) -> None:
    with pytest.raises(InvalidRecording, match=f"{version}: is the format of this file, .* record again"):
        list(read_lines(encode_line(HEADER, RecordingHeader(version, component))))
