"""What the node autoscaler writes into the status of a Buffer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.nodes import START, Cluster, a_buffer, a_group, a_node, a_spec
from trellis.api.kinds.buffer import BufferStatus
from trellis.base.reasons import DetailedReason
from trellis.core.nodes.buffers.status import build_provisioned_status
from trellis.core.nodes.scale_up.decisions import BUFFER_NODES_ORDERED, BufferDecision, correct_for_failed_orders

# 18 November 2026, noon UTC.
NOON = "2026-11-18T12:00:00Z"


def written(cluster: Cluster, before: dict[str, Any] | None = None, name: str = "spare") -> dict[str, Any] | None:
    cluster.plan()
    status = msgspec.convert(before, BufferStatus) if before is not None else None
    return build_provisioned_status(cluster.buffer(name), status, 3, cluster.now)


@pytest.mark.req("BF-37")
def test_a_buffer_whose_chunks_all_fit_is_provisioned_with_its_times() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1).buffers(a_buffer("spare", 4))
    status = written(cluster)
    assert status == {
        "conditions": [
            {
                "type": "Provisioned",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": NOON,
                "reason": "BufferProvisioned",
                "message": "4 of 4 chunks have a place on ready nodes",
            }
        ],
        "lastFullyProvisioned": NOON,
    }


def test_a_published_status_is_not_written_again_until_it_is_stale() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1).buffers(a_buffer("spare", 4))
    status = written(cluster)
    assert written(cluster.wait(299), status) is None
    repeated = written(cluster.wait(1), status)
    assert repeated is not None
    assert repeated["lastFullyProvisioned"] == "2026-11-18T12:05:00Z"
    assert repeated["conditions"][0]["lastTransitionTime"] == NOON


def test_the_observed_generation_of_the_condition_follows_the_buffer() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1).buffers(a_buffer("spare", 4))
    status = written(cluster)
    changed = build_provisioned_status(
        cluster.buffer("spare"), msgspec.convert(status, BufferStatus), 4, cluster.wait(5).now
    )
    assert changed is not None
    (condition,) = changed["conditions"]
    assert (condition["observedGeneration"], condition["lastTransitionTime"]) == (4, NOON)


def test_when_headroom_is_lost_the_last_provisioned_time_is_exact() -> None:
    cluster = Cluster(a_group("small", most=1)).add_group_nodes("small", 1).buffers(a_buffer("spare", 4))
    status = written(cluster)
    cluster.wait(120).plan()
    cluster.wait(60).nodes(a_node("small-1", labels={"group": "small"}, ready=False))
    lost = written(cluster, status)
    assert lost is not None
    (condition,) = lost["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "GroupsExhausted")
    assert condition["message"] == ("0 of 4 chunks have a place on ready nodes; 4 have none: GroupAtMaximum: small")
    assert (condition["lastTransitionTime"], lost["lastFullyProvisioned"]) == (
        "2026-11-18T12:03:00Z",
        "2026-11-18T12:02:00Z",
    )


def test_a_buffer_that_was_never_provisioned_has_no_time() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 4))
    status = written(cluster)
    assert status is not None
    assert "lastFullyProvisioned" not in status
    assert status["conditions"][0]["message"] == (
        "0 of 4 chunks have a place on ready nodes; 4 on new nodes of small are planned"
    )


def test_the_message_about_a_single_chunk_is_in_the_singular() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 1))
    status = written(cluster)
    assert status is not None
    assert status["conditions"][0]["message"] == (
        "0 of 1 chunk has a place on ready nodes; 1 on new nodes of small is planned"
    )
    small = Cluster(a_group("tiny", cpu="1")).buffers(a_buffer("spare", 1, a_spec("8")))
    status = written(small)
    assert status is not None
    assert status["conditions"][0]["message"] == (
        "0 of 1 chunk has a place on ready nodes; 1 has none: NodeTooSmall (cpu): tiny"
    )


def test_a_time_that_was_written_by_an_earlier_process_is_kept() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 4))
    status = written(cluster, {"lastFullyProvisioned": "2026-11-17T12:00:00Z"})
    assert status is not None
    assert status["lastFullyProvisioned"] == "2026-11-17T12:00:00Z"


def test_the_message_has_the_refusal_of_each_group() -> None:
    cluster = Cluster(a_group("small"), a_group("tiny", cpu="1")).buffers(a_buffer("spare", 2, a_spec("8")))
    status = written(cluster)
    assert status is not None
    assert status["conditions"][0]["message"].endswith("2 have none: NodeTooSmall (cpu): small, tiny")
    assert cluster.now == START


def test_chunks_whose_order_failed_have_no_headroom_beside_those_that_had_none_before() -> None:
    ordered = BufferDecision(
        ("default", "spare"), "u", DetailedReason(BUFFER_NODES_ORDERED), 6, ordered={"big": 2, "small": 1}, unplaced=3
    )
    (reported,) = correct_for_failed_orders([ordered], {"big", "other"})
    assert reported.reason.reason.code == "GroupsExhausted"
    assert (reported.ordered, reported.unplaced) == ({"small": 1}, 5)
    assert [str(refusal) for refusal in reported.refused] == ["OrderFailed: big"]
    assert correct_for_failed_orders([ordered], {"other"}) == (ordered,)
