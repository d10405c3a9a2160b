"""Resizes that were written while a container was down: how times tell, and what is known of kills after them."""

from __future__ import annotations

import copy
import math
from typing import Any

import msgspec
import pytest

from support.worlds.resizes import NOW, container, running, time
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import Pod
from trellis.core.cluster.missed_resizes import MissedResizes, is_missed
from trellis.core.cluster.oom_kill_detection import OomKillReader, find_oom_kills
from trellis.core.resize.view import read_downtime

MIB = 2.0**20
Document = dict[str, Any]


def ended(started: float, finished: float, reason: str = "OOMKilled") -> Document:
    code = 0 if reason == "Completed" else 137
    times = {"startedAt": time(NOW + started), "finishedAt": time(NOW + finished)}
    return {"terminated": {"reason": reason, "exitCode": code, **times}}


def runs(started: float) -> Document:
    return {"running": {"startedAt": time(NOW + started)}}


def pod(state: Document, last: Document | None = None, resized: float | None = None, **more: Any) -> Document:
    """A pod whose container is in this state, and was in that one before."""
    memory = more.pop("memory", "100Mi")
    document = running("web-1-a", container(memory=memory, limits={"memory": memory}), **more)
    document["status"]["containerStatuses"][0] |= {"state": state, **({"lastState": last} if last else {})}
    if resized is not None:
        entries = [("", NOW + 1000), ("resize", NOW + resized - 300), ("status", NOW + 2000), ("resize", NOW + resized)]
        document["metadata"]["managedFields"] = [
            {"manager": f"m{place}", "operation": "Update", "time": time(at), "subresource": name, "fieldsV1": {}}
            for place, (name, at) in enumerate(entries)
        ]
    return document


def enforced(document: Document, memory: str) -> Document:
    """The same pod, whose status shows this limit."""
    resources = {"limits": {"memory": memory}, "requests": {"memory": memory}}
    document["status"]["containerStatuses"][0]["resources"] = resources
    return document


DOWN = ended(-100, -40)
CASES = [
    (runs(-10), DOWN, None, False),
    (runs(-10), DOWN, -45, True),
    (runs(-10), DOWN, -46, False),
    (runs(-10), DOWN, -60, False),
    (runs(-10), DOWN, -30, True),
    (runs(-10), DOWN, -10, True),
    (runs(-10), DOWN, -9, False),
    (DOWN, None, -30, None),
    ({"waiting": {"reason": "CrashLoopBackOff"}}, DOWN, -30, None),
    (ended(-20, -10), DOWN, -30, True),
    (ended(-20, -10), DOWN, -18, False),
    (runs(-10), ended(-100, -40, "Error"), -40, False),
    (runs(-10), ended(-100, -40, "Error"), -39, True),
]


@pytest.mark.parametrize(("state", "last", "resized", "missed"), CASES)
def test_a_resize_between_the_end_of_a_container_and_its_next_start_is_missed(
    state: Document, last: Document | None, resized: float | None, missed: bool | None
) -> None:
    document = pod(state, last, resized)
    assert is_missed(msgspec.convert(document, Pod)) is missed
    assert is_missed(msgspec.convert(document, ObservedPod)) is missed


def test_a_missed_resize_is_remembered_until_one_is_written_while_the_container_runs() -> None:
    missed, old = MissedResizes(), None
    for state, last, resized, expected in (
        (runs(-300), None, None, False),
        (runs(-100), ended(-300, -200), -150, True),
        (runs(-50), ended(-100, -80), -150, True),
        (ended(-50, -20), ended(-100, -80), -10, True),
        (runs(10), ended(-50, -20), 20, False),
        (runs(50), ended(10, 40), 20, False),
    ):
        new = msgspec.convert(pod(state, last, resized), Pod)
        missed.put(old, new)
        assert ("uid-web-1-a" in missed) is expected
        old = new
    missed.put(None, msgspec.convert(pod(runs(-100), ended(-300, -200), -150), Pod))
    missed.forget("uid-web-1-a")
    assert "uid-web-1-a" not in missed


def versions(*documents: Document) -> list[tuple[float, float, bool]]:
    """Times, MiB and the mark of all kills that a watch of these versions shows."""
    kills, old, reported = OomKillReader(), None, []
    for document in documents:
        new = msgspec.convert(document, ObservedPod)
        reported += [(kill.time - NOW, kill.memory / MIB, kill.old_limit) for kill in kills.read(old, new)]
        old = new
    return reported


PHANTOM = (
    pod(runs(-300)),
    pod(ended(-300, -200)),
    pod(ended(-300, -200), resized=-150),
    pod(ended(-300, -200), resized=-150, memory="200Mi"),
    pod(runs(-100), ended(-300, -200), -150, memory="200Mi"),
    pod(ended(-100, -80), ended(-300, -200), -150, memory="200Mi"),
    pod(runs(-70), ended(-100, -80), -150, memory="200Mi"),
    pod(ended(-70, -60), ended(-100, -80), -150, memory="200Mi"),
)


def test_kills_after_a_missed_resize_belong_to_the_request_from_before_it() -> None:
    assert versions(*PHANTOM) == [(-200, 100, False), (-80, 100, False), (-60, 100, False)]


def test_a_kill_after_a_resize_of_a_running_container_belongs_to_the_new_request() -> None:
    healed = (
        pod(runs(-50), ended(-70, -60), -40, memory="201Mi"),
        pod(ended(-50, -10), ended(-70, -60), -40, memory="201Mi"),
    )
    assert versions(*PHANTOM, *healed)[3:] == [(-10, 201, False)]


def test_a_kill_before_the_kubelet_could_apply_the_resize_belongs_to_the_old_request() -> None:
    healed = (
        enforced(pod(runs(-50), ended(-70, -60), -40, memory="200Mi"), "100Mi"),
        pod(ended(-50, -38), ended(-70, -60), -40, memory="200Mi"),
    )
    assert versions(*PHANTOM, *healed)[3:] == [(-38, 100, False)]


FAST_KILL = (
    pod(runs(-300)),
    pod(ended(-300, -100)),
    pod(runs(-90), ended(-300, -100)),
    enforced(pod(runs(-90), ended(-300, -100), -80, memory="200Mi"), "100Mi"),
    enforced(pod(runs(-90), ended(-300, -100), -80, memory="200Mi"), "200Mi"),
    enforced(pod(ended(-90, -78), ended(-300, -100), -80, memory="200Mi"), "200Mi"),
    enforced(pod(runs(-70), ended(-90, -78), -80, memory="200Mi"), "200Mi"),
    enforced(pod(ended(-70, -60), ended(-90, -78), -80, memory="200Mi"), "200Mi"),
)


@pytest.mark.parametrize(
    ("skipped", "memory", "missed"), [((), 200, False), ((4,), 100, True), ((5,), 200, False), ((4, 5), 100, True)]
)
def test_kills_of_later_runs_belong_to_the_new_request_if_a_status_showed_the_resize_in_force(
    skipped: tuple[int, ...], memory: int, missed: bool
) -> None:
    """Otherwise a container that fills its memory within seconds would never be given more than one step."""
    documents = [document for index, document in enumerate(FAST_KILL) if index not in skipped]
    assert versions(*documents) == [(-100, 100, False), (-78, 100, False), (-60, memory, False)]
    resizes, old = MissedResizes(), None
    for document in documents:
        new = msgspec.convert(document, Pod)
        resizes.put(old, new)
        old = new
    assert ("uid-web-1-a" in resizes) is missed


def test_a_first_run_that_is_resized_and_killed_within_seconds_is_left_out_and_the_next_one_counts() -> None:
    first = (
        enforced(pod(runs(-90), memory="100Mi"), "100Mi"),
        enforced(pod(runs(-90), resized=-80, memory="200Mi"), "200Mi"),
        enforced(pod(ended(-90, -78), resized=-80, memory="200Mi"), "200Mi"),
        enforced(pod(ended(-77, -76), ended(-90, -78), resized=-80, memory="200Mi"), "200Mi"),
    )
    (time, memory, marked), after = versions(*first)
    assert (time, math.isnan(memory), marked) == (-78, True, True)
    assert after == (-76, 200, False)


def test_a_status_that_shows_the_limit_of_a_container_that_was_down_at_the_resize_says_nothing() -> None:
    phantom = [enforced(copy.deepcopy(document), "200Mi") for document in PHANTOM[3:]]
    assert versions(*PHANTOM[:3], *phantom) == [(-200, 100, False), (-80, 100, False), (-60, 100, False)]


def test_a_kill_after_a_missed_resize_is_marked_if_the_earlier_request_is_unknown() -> None:
    [(_, memory, marked)] = [version for version in versions(PHANTOM[5]) if version[0] == -80]
    assert math.isnan(memory)
    assert marked
    (_, phantom) = sorted(find_oom_kills(None, msgspec.convert(PHANTOM[5], ObservedPod)), key=lambda kill: kill.time)
    assert phantom.old_limit


def test_what_is_forgotten_of_a_pod_does_not_come_back_for_its_namesake() -> None:
    again = pod(ended(-20, -10), uid="another")
    assert versions(*PHANTOM, again)[3:] == [(-10, 100, False)]


def down(document: Document) -> tuple[float | None, tuple[str, ...]]:
    downtime = read_downtime(msgspec.convert(document, Pod))
    return downtime.since and downtime.since - NOW, downtime.containers


def test_a_container_that_ended_and_will_be_restarted_is_down() -> None:
    assert down(pod(DOWN)) == (-40, ("app",))
    assert down(pod({"waiting": {"reason": "CrashLoopBackOff"}}, DOWN)) == (-40, ("app",))
    assert down(pod(ended(-20, -10), DOWN)) == (-10, ("app",))
    assert down(pod(ended(-100, -40, "Completed"))) == (-40, ("app",))


def test_a_container_that_runs_never_ran_or_has_ended_for_good_is_not_down() -> None:
    assert down(pod(runs(-10), DOWN)) == (None, ())
    for reason in ("ContainerCreating", "PodInitializing"):
        assert down(pod({"waiting": {"reason": reason}})) == (None, ())
    assert down(pod(DOWN, restartPolicy="Never")) == (None, ())
    assert down(pod(ended(-100, -40, "Completed"), restartPolicy="OnFailure")) == (None, ())
    assert down(pod(DOWN, restartPolicy="OnFailure")) == (-40, ("app",))


def test_native_sidecars_count_and_init_containers_that_end_do_not() -> None:
    document = pod(runs(-10))
    document["spec"]["initContainers"] = [{"name": "mesh", "restartPolicy": "Always"}, {"name": "copy"}]
    document["status"]["initContainerStatuses"] = [
        {"name": "mesh", "state": runs(-100)},
        {"name": "copy", "state": ended(-100, -90, "Completed")},
    ]
    assert down(document) == (None, ())
    document["status"]["initContainerStatuses"][0]["state"] = DOWN
    assert down(document) == (-40, ("mesh",))
