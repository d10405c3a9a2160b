"""How many chunks a Buffer stands for, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.builders.manifests import TARGET, buffer, class_buffer, replica_buffer
from support.worlds.buffers import NOON, SETTINGS, a_pod, a_spec, app, meaning, requests_of, target_facts, translated
from trellis.core.buffers import BufferSettings, TranslationFacts, find_skip_reason, sum_filling_pods
from trellis.core.buffers.chunks import (
    CAPACITY_UNREADABLE,
    CHUNKS_TRUNCATED,
    OTHER_TYPE,
    OUTSIDE_SCHEDULE,
    POD_SELECTOR_UNREADABLE,
    SCHEDULE_UNREADABLE,
    TARGET_KIND_EXCLUDED,
    TARGET_NOT_OBSERVED,
    TARGET_WITHOUT_COUNT,
)
from trellis.core.cluster.target_problems import NO_TARGET_REF, TARGET_NOT_FOUND, build_target_problem

ONE_CORE = a_spec(app(cpu="1"))
OFFICE_HOURS = {"timeZone": "Europe/Berlin", "windows": [{"start": "0 8 * * 1-5", "duration": "10h"}]}


def share(**percent: int) -> dict[str, Any]:
    return replica_buffer(percent=percent)


def dedicated(strategy: str = "KeepMinimum", spec: Any = ONE_CORE) -> dict[str, Any]:
    """Ten chunks for pods of its own."""
    pods = {"replicaNum": 10, "podSpec": spec}
    selector = {"matchLabels": {"app": "build"}}
    return buffer(capacity={"pods": pods}, recreationStrategy=strategy, podSelector=selector)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.req("BF-07", "BF-10")
def test_fixed_replicas_are_that_many_pods_of_the_target() -> None:
    made = translated(replica_buffer(exactly=3), target_facts(replicas=0))
    assert (made.requested, made.chunks, made.is_ready, made.on_top) == (3, 3, True, True)
    assert requests_of(made) == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.req("BF-22")
@pytest.mark.parametrize(
    ("percent", "replicas", "chunks"),
    [
        ({"percent": 10}, 35, 4),
        ({"percent": 10}, 5, 1),
        ({"percent": 10, "maxCount": 20}, 300, 20),
        ({"percent": 10}, 0, 0),
        ({"percent": 10, "minCount": 1}, 0, 1),
        ({"percent": 100}, 0, 0),
        ({"percent": 150}, 3, 5),
    ],
)
def test_a_percentage_is_of_the_scales_replicas_and_rounds_up(
    percent: dict[str, int], replicas: int, chunks: int
) -> None:
    assert translated(share(**percent), target_facts(replicas)).chunks == chunks


@pytest.mark.req("BF-46")
def test_story_1_keeps_a_tenth_of_the_deployment() -> None:
    story = buffer(
        targetRef=TARGET,
        type="buffer.x-k8s.io/active-capacity",
        recreationStrategy="keep-empty",
        replicaBasedBufferSpec={"replicasCountPercentage": 10, "minCount": 1},
    )
    assert [translated(story, target_facts(replicas)).chunks for replicas in (0, 10, 40, 60)] == [1, 1, 4, 6]


def test_a_percentage_of_an_unknown_number_is_not_ready() -> None:
    made = translated(share(percent=10, minCount=1), target_facts(replicas=None))
    assert (made.is_ready, made.ready.reason, made.chunks) == (False, TARGET_WITHOUT_COUNT, 0)


@pytest.mark.req("BF-31")
def test_a_given_pod_spec_needs_no_target_and_keeps_its_rules() -> None:
    rules = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "ci", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
                }
            }
        },
    }
    made = translated(buffer(capacity={"pods": {"replicaNum": 5, "podSpec": a_spec(app(cpu="2"), **rules)}}))
    assert made.chunks == 5
    assert made.pod_spec == {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}], **rules}


@pytest.mark.req("BF-18")
@pytest.mark.parametrize(
    ("document", "facts", "reason"),
    [
        (buffer(capacity={}), TranslationFacts(), CAPACITY_UNREADABLE),
        (buffer(capacity={"replicas": {"exactly": 2}}), TranslationFacts(), NO_TARGET_REF),
        (replica_buffer(exactly=2), TranslationFacts(), TARGET_NOT_OBSERVED),
        (
            replica_buffer(exactly=2),
            TranslationFacts(build_target_problem(TARGET_NOT_FOUND, "no such thing")),
            TARGET_NOT_FOUND,
        ),
        (class_buffer(), TranslationFacts(build_target_problem(TARGET_NOT_FOUND, "no such thing")), TARGET_NOT_FOUND),
    ],
)
def test_an_unusable_buffer_has_a_reason_and_no_chunks(document: Any, facts: TranslationFacts, reason: object) -> None:
    made = translated(document, facts)
    assert (made.ready.reason, made.is_ready, made.chunks, made.pod_spec) == (reason, False, 0, None)


@pytest.mark.req("BF-19")
def test_other_types_and_kinds_set_aside_are_not_translated() -> None:
    foreign = meaning(buffer(targetRef=TARGET, type="example.com/warm", capacity={"replicas": {"exactly": 1}}))
    reason = find_skip_reason(foreign, SETTINGS)
    assert reason is not None
    assert reason.reason is OTHER_TYPE
    managed = meaning(replica_buffer(exactly=1))
    assert find_skip_reason(managed, SETTINGS) is None
    reason = find_skip_reason(managed, BufferSettings(set_aside=frozenset({"Deployment"})))
    assert reason is not None
    assert reason.reason is TARGET_KIND_EXCLUDED


def test_the_chunks_of_a_buffer_are_limited_with_a_reason() -> None:
    made = translated(replica_buffer(exactly=2_000_000_000), target_facts(), most_chunks=100)
    assert (made.requested, made.chunks, made.is_ready) == (2_000_000_000, 100, True)
    assert made.ready.reason is CHUNKS_TRUNCATED
    assert str(made.ready) == "limited from 2000000000 to 100 chunks, the maximum of one Buffer"
    assert translated(replica_buffer(exactly=100), target_facts(), most_chunks=100).ready.reason is not CHUNKS_TRUNCATED


@pytest.mark.req("BF-50")
@pytest.mark.parametrize(
    ("now", "chunks", "change"),
    [
        ("2026-11-18T06:59:59", 0, "2026-11-18T07:00:00"),
        ("2026-11-18T07:00:00", 3, "2026-11-18T17:00:00"),
        ("2026-11-18T17:00:00", 0, "2026-11-19T07:00:00"),
        ("2026-11-20T17:00:00", 0, "2026-11-23T07:00:00"),
        ("2026-07-01T06:00:00", 3, "2026-07-01T16:00:00"),
    ],
)
def test_outside_its_windows_a_buffer_has_no_chunks(now: str, chunks: int, change: str) -> None:
    document = replica_buffer(exactly=3)
    document["spec"]["schedule"] = OFFICE_HOURS
    made = translated(document, target_facts(), at(now))
    assert (made.chunks, made.is_ready, made.next_change) == (chunks, chunks > 0, at(change))
    assert (made.ready.reason is OUTSIDE_SCHEDULE) is (chunks == 0)
    assert made.requested == 3


@pytest.mark.req("BF-50")
def test_a_window_in_a_skipped_or_doubled_hour_opens_once() -> None:
    document = replica_buffer(exactly=3)
    windows = [{"start": "30 2 * * *", "duration": "15m"}]
    document["spec"]["schedule"] = {"timeZone": "Europe/Berlin", "windows": windows}
    # On 28 March 2027 the clock goes from 2 to 3; on 31 October it shows 2:30 at 0:30 and at 1:30 UTC.
    opens = ("2027-03-28T01:00:00", "2027-10-31T00:30:00")
    closed = ("2027-03-28T01:15:00", "2027-10-31T00:45:00", "2027-10-31T01:30:00")
    assert [translated(document, target_facts(), at(now)).chunks for now in opens] == [3, 3]
    assert [translated(document, target_facts(), at(now)).chunks for now in closed] == [0, 0, 0]


@pytest.mark.parametrize(
    ("zone", "start", "named"),
    [("Europe/Berln", "0 8 * * 1-5", "Europe/Berln"), ("Europe/Berlin", "0 25 * * *", "0 25 * * *")],
)
def test_an_unreadable_schedule_keeps_the_chunks_and_is_noted(zone: str, start: str, named: str) -> None:
    document = replica_buffer(exactly=3)
    document["spec"]["schedule"] = {"timeZone": zone, "windows": [{"start": start, "duration": "1h"}]}
    made = translated(document, target_facts())
    assert (made.chunks, made.is_ready) == (3, True)
    (note,) = made.notes
    assert note.reason is SCHEDULE_UNREADABLE
    assert named in str(note)


def test_an_unreadable_pod_selector_fills_nothing_and_is_noted() -> None:
    document = dedicated()
    document["spec"]["podSelector"] = {"matchExpressions": [{"key": "app", "operator": "In"}]}
    made = translated(document)
    assert (made.chunks, made.is_ready) == (10, True)
    (note,) = made.notes
    assert note.reason is POD_SELECTOR_UNREADABLE
    assert "matchExpressions[0]" in str(note)


@pytest.mark.req("BF-52")
@pytest.mark.parametrize(("filled", "chunks"), [({}, 10), ({"cpu": 4_000}, 6), ({"cpu": 12_000}, 0), ({"cpu": 1}, 10)])
def test_a_dedicated_buffer_keeps_what_matching_pods_leave(filled: dict[str, int], chunks: int) -> None:
    made = translated(dedicated(), TranslationFacts(filled={**filled, "pods": 4}))
    assert (made.requested, made.chunks, made.on_top) == (10, chunks, True)


@pytest.mark.req("BF-52")
def test_the_fewest_chunks_cover_the_rest_in_every_resource() -> None:
    used = {"cpu": 8_000, "memory": 3 * 2**30, "pods": 1}
    document = dedicated(spec=a_spec(app(cpu="1", memory="1Gi")))
    assert translated(document, TranslationFacts(filled=used)).chunks == 7
    assert translated(document, TranslationFacts(filled={"cpu": 8_000, "memory": 2**40})).chunks == 2
    of_no_size = dedicated(spec=a_spec(app()))
    assert translated(of_no_size, TranslationFacts(filled={"pods": 4})).chunks == 6


@pytest.mark.req("BF-52")
def test_live_pods_fill_a_buffer_with_their_requests() -> None:
    running, completed = a_pod(ONE_CORE), a_pod(ONE_CORE, status={"phase": "Succeeded"})
    leaving = a_pod(ONE_CORE, deletionTimestamp="2026-11-18T11:00:00Z")
    filled = sum_filling_pods([running, completed, leaving, *(a_pod(ONE_CORE) for _ in range(3))])
    assert filled == {"cpu": 4_000, "pods": 4}
    assert translated(dedicated(), TranslationFacts(filled=filled)).chunks == 6


@pytest.mark.req("BF-54")
def test_a_dedicated_keep_empty_buffer_is_translated_as_not_dedicated() -> None:
    filled = TranslationFacts(filled={"cpu": 4_000})
    assert translated(dedicated("KeepEmpty"), filled) == translated(dedicated("KeepEmpty"))
    assert translated(dedicated("KeepEmpty"), filled).chunks == 10


@pytest.mark.req("BF-33")
def test_keep_minimum_and_keep_empty_translations_differ() -> None:
    document = buffer(capacity={"pods": {"replicaNum": 3, "podSpec": ONE_CORE}}, recreationStrategy="keep-minimum")
    made = translated(document, TranslationFacts(filled={"cpu": 2_000}))
    assert (made.chunks, made.on_top) == (3, False)


@pytest.mark.req("BF-10")
def test_equal_facts_have_equal_translations() -> None:
    document = share(percent=20)
    assert target_facts(10) == target_facts(10)
    assert target_facts(10) != target_facts(11)
    assert translated(document, target_facts(10), NOON) == translated(document, target_facts(10), NOON + 60)
