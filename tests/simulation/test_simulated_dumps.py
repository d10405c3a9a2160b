"""`trellis simulate --dump`: what a cluster would have seen, told with what had to be assumed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from dumped_cluster import example
from trellis.cli.main import trellis


def test_a_dump_is_simulated_with_notes_on_what_was_assumed(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"".join(example()))
    arguments = ["--processes", "1", "--quiet", "--dump", str(dump), "--recommenders", "default"]
    result = CliRunner().invoke(trellis, ["simulate", *arguments])
    assert result.exit_code == 0, result.output
    for words in ("fixed", "current", "default", "usage over time (1 container)", "what is requested"):
        assert words in " ".join(result.stdout.split())
