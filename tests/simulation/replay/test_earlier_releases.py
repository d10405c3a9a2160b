"""What earlier releases recorded, dumped and stored is read by this one, and leads to the same decisions.

`tests/releases` has the files of each release; `tools/release/freeze.py` writes those of the present version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.install.releases import RELEASES, is_close, read_objects
from trellis.cli.main import trellis
from trellis.runtime.recorder import read_recording
from trellis.sim.replay.replay import replay

RECORDINGS = [file for release in RELEASES for file in sorted((release / "recordings").iterdir())]
COMPONENTS = {"recommender", "updater", "hvpa", "buffers", "nodes"}


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_there_is_a_recording_of_every_component_that_records(release: Path) -> None:
    assert {file.name.partition(".")[0] for file in (release / "recordings").iterdir()} == COMPONENTS


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: f"{file.parents[1].name} {file.name}")
def test_a_recording_of_an_earlier_release_leads_to_the_same_decisions(file: Path) -> None:
    report = replay(read_recording(file))
    assert report.decisions >= 3
    assert report.first is None


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_checkpoints_of_an_earlier_release_lead_to_the_same_recommendation(release: Path) -> None:
    recommended = {
        it["metadata"]["name"]: it["status"]["recommendation"]["containerRecommendations"]
        for it in read_objects(release)
        if it["kind"] == "VerticalPodAutoscaler"
    }
    assert len(recommended) > 1
    for name, [container] in recommended.items():
        [explained] = explain(release / "dump.jsonl.gz", name)["containers"]
        assert explained["name"] == container["containerName"]
        assert is_close(explained["decided"]["recommended"]["target"], container["target"])


def explain(dump: Path, name: str) -> Any:
    """How the recommendation of a VPA comes about, from the checkpoints in a dump."""
    command = ["explain", f"recommendation/{name}", "-n", "default", "-o", "json", "--dump", str(dump)]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    return json.loads(result.stdout)
