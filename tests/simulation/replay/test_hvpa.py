"""A recording of an Hvpa controller gives the same plans again.

Every world of the controller's tests is replayed when its play is over (`hvpa_controller_world`). Here it is shown that
a replay decides anew, that a view survives being written down, and what is refused.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from support.builders.hvpas import buckets, sizings, totals
from support.controllers.hvpa import World
from support.worlds.hvpas import NOW, SETTINGS, decided, meaning, view
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import (
    FORMAT_VERSION,
    HEADER,
    RecordingHeader,
    decode_payload,
    encode_line,
    encode_payload,
    read_lines,
)
from trellis.cli.main import trellis
from trellis.controllers.hvpa.process import HvpaController
from trellis.core.hvpa import HpaView
from trellis.core.hvpa.autoscalers import OLDER_HVPA
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recording.format import DECISION_LINE, HVPA, INPUT_LINE, START_LINE
from trellis.core.recording.hvpa import HvpaPlanInput, HvpaRecordingStart, RecordedHvpaPlan
from trellis.sim.replay.hvpa import replay_hvpa
from trellis.sim.replay.replay import replay

METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 120}}}


@pytest.fixture(scope="module")
def recording() -> bytes:
    """Recommendations, wishes of an HPA, drift, a closed direction, and a target that goes to zero."""
    world = World()
    world.add_workload()
    world.add_hvpa(
        vpa={"deploy": True},
        scaleDown={"updateMode": "MaintenanceWindow"},
        maintenanceWindow={"begin": "220000-0000", "end": "223000-0000"},
    )
    world.add_hpa("mine", metrics=[METRIC])

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(120.0)
        world.request_replicas(6)
        await world.wait(120.0)
        world.edit("deployments", "web", replicas=7)
        await world.wait(60.0)
        world.advise("2", "1G", "6", "2G")
        await world.wait(900.0)
        world.edit("deployments", "web", replicas=0)
        await world.wait(120.0)

    world.run(play)
    return world.recording.lines


def with_changed(written: bytes, kind: str, **fields: object) -> bytes:
    """The same recording with other values in all lines of a kind."""
    result = [(name, msgspec.json.decode(data)) for name, data in read_lines(written)]
    return b"".join(encode_line(name, {**data, **fields} if name == kind else data) for name, data in result)


def test_plans_are_the_same_byte_for_byte_and_are_of_all_kinds(recording: bytes) -> None:
    report = replay(recording)
    assert (report.component, report.first) == (HVPA, None)
    assert report.decisions > 10
    result = b"".join(decision.decided for decision in replay_hvpa(read_lines(recording)))
    for word in ("SetScale", "WriteBack", "ScalesUp", "StepBlocked", "ReplicasDrifted", "ScaledToZero", "AsDecided"):
        assert word.encode() in result, word


def test_a_replay_decides_again_and_reports_differences(recording: bytes) -> None:
    settings = msgspec.json.decode(encode_payload(SETTINGS))
    assert replay(with_changed(recording, START_LINE, settings=settings)).different == 0
    report = replay(with_changed(recording, START_LINE, settings={**settings, "ready_patience": 0.0}))
    assert report.different > 0
    report = replay(with_changed(recording, DECISION_LINE, reason="Whim"))
    assert report.different == report.decisions
    assert str(report.first).startswith('decision 1 (shop/web) differs at $.reason: recorded "Whim", now "')


def test_one_plan_that_differs_does_not_make_others_differ(recording: bytes) -> None:
    """Each line has all that its plan is made from."""
    lines = [(kind, msgspec.json.decode(data)) for kind, data in read_lines(recording)]
    third = [data for kind, data in lines if kind == INPUT_LINE][2]
    more = {"cpu": 100_000, "memory": 10**9}
    third["view"]["containers"][0] |= {"target": more, "total": more}
    report = replay(b"".join(encode_line(kind, data) for kind, data in lines))
    assert (report.different, report.first.number if report.first else 0) == (1, 3)


def test_values_derived_from_buckets_are_computed_again(recording: bytes) -> None:
    lines = [(kind, msgspec.json.decode(data)) for kind, data in read_lines(recording)]
    for kind, data in lines:
        if kind == INPUT_LINE:
            data["view"]["meaning"]["ladders"] = {"by_resource": {}, "ranges": []}
    assert replay(b"".join(encode_line(kind, data) for kind, data in lines)).first is None


def test_the_command_reports_the_difference_and_ends_accordingly(recording: bytes, tmp_path: Path) -> None:
    same, other = tmp_path / "same.jsonl", tmp_path / "other.jsonl"
    same.write_bytes(recording)
    other.write_bytes(with_changed(recording, DECISION_LINE, details="nonsense"))
    result = CliRunner().invoke(trellis, ["simulate", "--replay", str(same)])
    assert (result.exit_code, "decisions, no differences" in result.output) == (0, True)
    result = CliRunner().invoke(trellis, ["simulate", "--replay", str(other)])
    assert (result.exit_code, result.output.count(" (shop/web) differs at $.details")) == (1, 20)
    assert result.output.endswith(f"  and {replay(recording).decisions - 20} more\n")


def test_a_truncated_recording_is_replayed_up_to_its_end(recording: bytes) -> None:
    report = replay(recording[: len(recording) // 2])
    assert report.first is None
    assert report.decisions > 0


@given(buckets(), totals(), totals(), sizings(), st.fractions(min_value=0, max_value=10))
def test_a_view_that_is_read_again_is_the_same_and_gives_the_same_plan(
    written: list[dict[str, Any]],
    total: ResourceAmounts,
    target: ResourceAmounts,
    sizing: dict[str, str],
    ratio: Fraction,
) -> None:
    means = meaning(*written, replicaSize=sizing, maintenanceWindow={"begin": "220000+0130", "end": "010000+0130"})
    hpa = HpaView(ratio, frozenset({"cpu", "memory"}))
    first = view(2, total, target, total, meaning=means, hpa=hpa, conflict=OLDER_HVPA, conflicting=("Hvpa web",))
    for current in (first, msgspec.structs.replace(first, conflict=None, memory=decided(first).memory)):
        again = decode_payload(encode_payload(HvpaPlanInput(("shop", "web"), NOW, current)), HvpaPlanInput)
        assert again == HvpaPlanInput(("shop", "web"), NOW, current)
        assert encode_payload(RecordedHvpaPlan.of(decided(again.view))) == encode_payload(
            RecordedHvpaPlan.of(decided(current))
        )


BEGINS = (START_LINE, HvpaRecordingStart(SETTINGS))
PLAN_INPUT = (INPUT_LINE, HvpaPlanInput(("shop", "web"), NOW, view(2, {"cpu": 1000})))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([("weather", {})], "weather.*comes before a line of kind start"),
        ([BEGINS, ("weather", {})], "weather.*is not valid in a recording of the Hvpa controller"),
        ([BEGINS, (DECISION_LINE, {})], "decision.*comes before a line of kind input"),
        ([BEGINS, PLAN_INPUT, (DECISION_LINE, {}), (DECISION_LINE, {})], "decision.*comes before a line of kind input"),
        ([BEGINS, (INPUT_LINE, {"hvpa": ["shop", "web"], "now": "noon"})], "is invalid.*now"),
        ([(START_LINE, {"settings": {"low_ratio": "much"}})], "is invalid.*low_ratio"),
        ([(START_LINE, {"settings": {"low_ratio": "1/0"}})], "is invalid"),
    ],
)
def test_an_invalid_recording_is_refused_with_the_reason(lines: list[tuple[str, object]], why: str) -> None:
    written = encode_line(HEADER, RecordingHeader(FORMAT_VERSION, HVPA)) + b"".join(
        encode_line(*line) for line in lines
    )
    with pytest.raises(InvalidRecording, match=why):
        replay(written)
