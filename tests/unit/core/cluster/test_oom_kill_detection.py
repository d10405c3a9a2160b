"""Out-of-memory kills: each is seen, whatever the watch has missed, and none is made up."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.coordination import Event
from trellis.api.kube.decoder import decode_object
from trellis.api.kube.observed_pods import ObservedPod
from trellis.core.cluster.oom_kill_detection import OomKill, find_oom_kills, read_eviction

MIB = 1024.0 * 1024.0
FIRST, SECOND = 1_772_359_209.0, 1_772_359_269.0
_TIMES = {FIRST: "2026-03-01T10:00:09Z", SECOND: "2026-03-01T10:01:09Z"}
RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-03-01T09:00:00Z"}}
WAITING: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}


def ended(at: float, reason: str = "OOMKilled") -> dict[str, Any]:
    return {"terminated": {"exitCode": 137, "reason": reason, "finishedAt": _TIMES[at]}}


def container(
    state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0, name: str = "app"
) -> dict[str, Any]:
    return {"name": name, "state": state, "lastState": last or {}, "restartCount": restarts}


def pod(*statuses: dict[str, Any], memory: str = "64Mi", uid: str = "u1", init: Any = (), **spec: Any) -> ObservedPod:
    resources = {"requests": {"memory": memory}} if memory else {}
    body = {
        "metadata": {"name": "web-0", "namespace": "shop", "uid": uid},
        "spec": {"containers": [{"name": name, "resources": resources} for name in ("app", "log")], **spec},
        "status": {"phase": "Running", "containerStatuses": list(statuses), "initContainerStatuses": list(init)},
    }
    return decode_object(msgspec.json.encode(body), ObservedPod)


def kill(at: float, memory: float = 64 * MIB, name: str = "app", uid: str = "u1") -> OomKill:
    return OomKill("shop", "web-0", uid, name, at, memory)


def test_a_container_that_is_down_was_killed_with_the_request_it_has_now() -> None:
    old, new = pod(container(RUNNING)), pod(container(ended(FIRST)), memory="80Mi")
    assert find_oom_kills(old, new) == (kill(FIRST, 80 * MIB),)


@pytest.mark.parametrize("state", [RUNNING, WAITING])
def test_a_container_that_restarted_between_two_passes_was_killed_with_the_request_it_had(
    state: dict[str, Any],
) -> None:
    old, new = pod(container(RUNNING)), pod(container(state, ended(FIRST), 1), memory="80Mi")
    assert find_oom_kills(old, new) == (kill(FIRST, 64 * MIB),)


def test_a_kill_is_reported_once_while_its_container_comes_back() -> None:
    versions = [
        pod(container(RUNNING)),
        pod(container(ended(FIRST))),
        pod(container(WAITING, ended(FIRST))),
        pod(container(RUNNING, ended(FIRST), 1)),
        pod(container(ended(SECOND), ended(FIRST), 1)),
        pod(container(RUNNING, ended(SECOND), 2)),
    ]
    kills = [find_oom_kills(old, new) for old, new in pairwise(versions)]
    assert kills == [(kill(FIRST),), (), (), (kill(SECOND),), ()]


def test_a_pod_observed_for_the_first_time_reports_all_that_it_remembers() -> None:
    observed = pod(container(ended(SECOND), ended(FIRST), 1), container(RUNNING, ended(FIRST), 1, name="log"))
    assert find_oom_kills(None, observed) == (kill(SECOND), kill(FIRST), kill(FIRST, name="log"))


def test_a_new_pod_with_the_old_ones_name_is_observed_for_the_first_time() -> None:
    old, new = pod(container(ended(FIRST)), memory="80Mi"), pod(container(RUNNING, ended(FIRST), 1), uid="u2")
    assert find_oom_kills(old, new) == (kill(FIRST, uid="u2"),)


def test_other_ends_are_no_kills() -> None:
    for state, last in ((ended(FIRST, "Error"), {}), (RUNNING, ended(FIRST, "Completed")), (WAITING, {})):
        assert find_oom_kills(None, pod(container(state, last, 1))) == ()
    assert find_oom_kills(None, pod()) == ()
    assert find_oom_kills(None, pod(container({"terminated": {"reason": "OOMKilled", "finishedAt": None}}))) == ()


def test_of_init_containers_only_native_sidecars_count() -> None:
    requests = {"requests": {"memory": "32Mi"}}
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": requests}
    observed = pod(
        init=[container(ended(FIRST), name="proxy"), container(ended(FIRST), name="migrate")],
        initContainers=[sidecar, {"name": "migrate", "resources": requests}],
    )
    assert find_oom_kills(None, observed) == (kill(FIRST, 32 * MIB, "proxy"),)


def test_the_request_is_what_the_node_had_set_aside() -> None:
    resized = container(RUNNING) | {"resources": {"requests": {"memory": "96Mi"}}}
    new = pod(container(RUNNING, ended(FIRST), 1) | {"resources": {"requests": {"memory": "128Mi"}}})
    assert find_oom_kills(pod(resized), new) == (kill(FIRST, 96 * MIB),)
    assert find_oom_kills(None, new) == (kill(FIRST, 128 * MIB),)


def test_a_container_without_a_request_is_reported_without_a_number_even_if_its_pod_has_one() -> None:
    (kill,) = find_oom_kills(None, pod(container(ended(FIRST)), memory="", resources={"requests": {"memory": "4Gi"}}))
    assert math.isnan(kill.memory)
    assert (kill.container, kill.time) == ("app", FIRST)


_states = st.sampled_from([RUNNING, WAITING, ended(FIRST), ended(SECOND), ended(SECOND, "Error"), {}])
_versions = st.builds(lambda state, last: pod(container(state, last)), _states, _states)


@given(st.lists(_versions, min_size=1, max_size=6), st.data())
def test_whatever_versions_a_watch_skips_no_kill_that_still_shows_is_lost(
    versions: list[ObservedPod], data: st.DataObject
) -> None:
    observed = [version for version in versions[:-1] if data.draw(st.booleans())] + versions[-1:]
    reported = {
        (kill.container, kill.time)
        for old, new in zip([None, *observed], observed, strict=False)
        for kill in find_oom_kills(old, new)
    }
    status = versions[-1].status.container_statuses[0]
    for state in (status.state.terminated, status.last_state.terminated):
        if state is not None and state.reason == "OOMKilled":
            assert state.finished_at is not None
            assert ("app", state.finished_at.timestamp()) in reported


def event(annotations: dict[str, str] | None, **fields: Any) -> Event:
    metadata = {"name": "e", "namespace": "shop", "creationTimestamp": _TIMES[FIRST], "annotations": annotations}
    about = {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "u1"}
    body = {"metadata": metadata, "reason": "Evicted", "involvedObject": about, "count": 2} | fields
    return decode_object(msgspec.json.encode(body), Event)


def offending(containers: str, usage: str, resource: str = "memory") -> dict[str, str]:
    return {"offending_containers": containers, "offending_containers_usage": usage, "starved_resource": resource}


def test_an_eviction_for_memory_reports_what_was_used() -> None:
    assert read_eviction(event(offending("app", "100Mi"))) == (kill(FIRST, 100 * MIB),)


@pytest.mark.parametrize("resource", ["memory", "memory,memory"])
def test_several_containers_may_share_one_eviction(resource: str) -> None:
    kills = read_eviction(event(offending("app,log", "100Mi,3276Ki", resource)))
    assert kills == (kill(FIRST, 100 * MIB), kill(FIRST, 3276 * 1024.0, "log"))


def test_only_what_ran_out_of_memory_counts() -> None:
    assert read_eviction(event(offending("app,log", "100Mi,2Gi", "memory,ephemeral-storage"))) == (
        kill(FIRST, 100 * MIB),
    )
    assert read_eviction(event(offending("app", "2Gi", "ephemeral-storage"))) == ()


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        {},
        offending("", ""),
        offending("app,log", "100Mi"),
        offending("app", "100Mi,100Mi"),
        offending("a,b,c", "1,1,1", "memory,memory"),
        offending("app", "a lot"),
        offending("app", "-5"),
        {"offending_containers": "app", "starved_resource": "memory"},
        {"offending_containers": "app", "offending_containers_usage": "1Mi"},
    ],
)
def test_lists_that_make_no_sense_are_passed_over(annotations: dict[str, str] | None) -> None:
    assert read_eviction(event(annotations)) == ()


def test_a_bad_entry_does_not_hide_a_good_one() -> None:
    assert read_eviction(event(offending("app,log", "a lot,1Mi"))) == (kill(FIRST, MIB, "log"),)


def test_other_events_are_not_evictions_of_pods() -> None:
    annotations = offending("app", "100Mi")
    assert read_eviction(event(annotations, reason="Killing")) == ()
    assert read_eviction(event(annotations, involvedObject={"kind": "Node", "name": "web-0"})) == ()


@pytest.mark.parametrize("field", ["firstTimestamp", "eventTime"])
def test_an_event_without_a_creation_time_has_others_and_one_without_any_is_passed_over(field: str) -> None:
    metadata = {"name": "e", "namespace": "shop", "annotations": offending("app", "1Mi")}
    assert read_eviction(event(None, metadata=metadata, **{field: _TIMES[SECOND]})) == (kill(SECOND, MIB),)
    assert read_eviction(event(None, metadata=metadata)) == ()


@given(st.text(alphabet="ab,m0i", max_size=8), st.text(alphabet="1,Mi-e", max_size=8), st.text(max_size=8))
def test_no_annotation_raises(containers: str, usage: str, resource: str) -> None:
    for kill in read_eviction(event(offending(containers, usage, resource or "memory"))):
        assert kill.memory >= 0
