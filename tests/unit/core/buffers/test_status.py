"""What is written into a Buffer, and that nothing is written twice."""

from __future__ import annotations

import msgspec
import pytest

from support.builders.manifests import buffer, class_buffer, replica_buffer
from support.worlds.buffers import NOON, Document, a_quota, a_spec, target_facts, translated
from trellis.api.kinds.buffer import BufferStatus
from trellis.api.registry import BUFFER
from trellis.api.validation import validate
from trellis.core.buffers import Translation, apply_quotas, build_status, is_status_current

LATER = NOON + 3_600


def stored(status: Document) -> BufferStatus:
    """As the API server gives it back, beside what the node autoscaler has written."""
    provisioned = {"type": "Provisioned", "status": "True", "lastTransitionTime": "2026-11-18T12:00:00Z"}
    fields = {name: value for name, value in status.items() if value is not None}
    document = {
        **fields,
        "conditions": [*fields["conditions"], provisioned],
        "lastFullyProvisioned": "2026-11-18T12:00:00Z",
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=BufferStatus)


def conditions(status: Document) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]}


def limited(chunks: int) -> Translation:
    made = translated(replica_buffer(exactly=10), target_facts())
    return apply_quotas({("ns", "web"): (0.0, made)}, [a_quota("compute", {"pods": str(chunks)})])["ns", "web"]


@pytest.mark.req("BF-07", "BF-37")
def test_the_status_has_exactly_the_chunks_to_provision() -> None:
    status = build_status(translated(replica_buffer(exactly=3), target_facts()), None, 2, NOON)
    assert status == {
        "podBasedBufferSpec": {
            "replicaNum": 3,
            "podSpec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
            "podLabels": {"app": "web", "pod-template-hash": "abc"},
        },
        "conditions": [
            {
                "type": "LimitedByQuotas",
                "status": "False",
                "observedGeneration": 2,
                "lastTransitionTime": "2026-11-18T12:00:00Z",
                "reason": "WithinQuotas",
                "message": "",
            },
            {
                "type": "ReadyForProvisioning",
                "status": "True",
                "observedGeneration": 2,
                "lastTransitionTime": "2026-11-18T12:00:00Z",
                "reason": "BufferReady",
                "message": "A chunk has the spec of the target's newest live pod",
            },
        ],
        "selector": "trellis.x-k8s.io/chunk=true",
        "observedGeneration": 2,
    }
    document = {**replica_buffer(exactly=3), "status": status}
    assert [problem for problem in validate(BUFFER, document) if problem.is_error] == []


@pytest.mark.req("BF-37")
def test_a_buffer_that_is_not_ready_has_a_reason_and_no_pods() -> None:
    status = build_status(translated(replica_buffer(exactly=3)), None, 1, NOON)
    assert status["podBasedBufferSpec"] is None
    assert conditions(status)["ReadyForProvisioning"] == ("False", "TargetNotObserved")


def test_quotas_are_a_condition_of_their_own() -> None:
    status = build_status(limited(4), None, 1, NOON)
    assert status["podBasedBufferSpec"]["replicaNum"] == 4
    assert conditions(status) == {
        "LimitedByQuotas": ("True", "LimitedByQuotas"),
        "ReadyForProvisioning": ("True", "BufferReady"),
    }


def test_notes_are_in_the_message_of_the_condition() -> None:
    made = translated(class_buffer(perChunkResources={"cpu": "1m"}), most_chunks=7)
    [_, ready] = build_status(made, None, 1, NOON)["conditions"]
    assert ready["reason"] == "ChunksTruncated"
    assert ready["message"] == "limited from 40000 to 7 chunks, the maximum of one Buffer"
    volumes = [{"persistentVolumeClaim": {"claimName": f"claim-{number}"}} for number in range(200)]
    made = translated(buffer(capacity={"pods": {"replicaNum": 1, "podSpec": a_spec(volumes=volumes)}}))
    [_, ready] = build_status(made, None, 1, NOON)["conditions"]
    assert ready["message"].startswith(
        "A chunk has the resources that the Buffer specifies; without volumes[0] (claim claim-0), "
    )
    assert len(ready["message"]) == 1_024


def test_a_current_status_is_not_written_again() -> None:
    for made in (
        translated(replica_buffer(exactly=3), target_facts()),
        limited(4),
        translated(replica_buffer(exactly=3)),
    ):
        before = stored(build_status(made, None, 2, NOON))
        assert is_status_current(build_status(made, before, 2, LATER), before)
        assert not is_status_current(build_status(made, before, 3, LATER), before)
        assert not is_status_current(build_status(made, None, 2, LATER), None)


def test_every_change_is_written() -> None:
    before = stored(build_status(limited(4), None, 1, NOON))
    others = (
        limited(5),
        translated(replica_buffer(exactly=10), target_facts()),
        translated(replica_buffer(exactly=4), target_facts(spec=a_spec(nodeSelector={"a": "b"}))),
        translated(replica_buffer(exactly=4)),
    )
    for made in others:
        assert not is_status_current(build_status(made, before, 1, LATER), before)


def test_the_time_of_a_transition_moves_only_with_the_status() -> None:
    before = stored(build_status(limited(4), None, 1, NOON))
    fewer = {condition["type"]: condition for condition in build_status(limited(3), before, 1, LATER)["conditions"]}
    assert {condition["lastTransitionTime"] for condition in fewer.values()} == {"2026-11-18T12:00:00Z"}
    none = {condition["type"]: condition for condition in build_status(limited(10), before, 1, LATER)["conditions"]}
    assert none["LimitedByQuotas"]["lastTransitionTime"] == "2026-11-18T13:00:00Z"
    assert none["ReadyForProvisioning"]["lastTransitionTime"] == "2026-11-18T12:00:00Z"
