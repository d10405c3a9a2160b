"""100,000 pods in 20,000 VPAs, two containers each, none of which needs anything: which workloads need a plan?

Every workload has a size of its own and is governed in one of three modes, some with requirements or policies. A third
are in a namespace with LimitRanges, and all pods are old, so that only their size keeps them as they are.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from bench.measurement import CannotMeasure, Row, in_ms, within
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.resize.plan import plan
from trellis.core.resize.screen import Screen
from trellis.core.resize.screened import WorkloadKey
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.sizing.governors import Governor, vpa_governor

WORKLOADS = 20_000
PODS = 5
ROUNDS = 5
# The bar of the whole, and what one thing that changes may cost.
SECONDS = 1.0
CHANGE = 0.0005
WEIGHED = 1_600

NOW = 1_800_000_000.0
_MODES = ("Recreate", "InPlaceOrRecreate", "InPlace")
_MIB = 1 << 20
_RANGE = {"type": "Container", "max": {"cpu": "64", "memory": "256Gi"}, "min": {"cpu": "1m", "memory": "1Mi"}}
_LIMITED = read_limit_ranges([msgspec.convert({"spec": {"limits": [_RANGE]}}, LimitRange)])

Json = dict[str, Any]


def measure() -> list[Row]:
    screen = Screen(UpdateSettings())
    spent = fill(screen, [governor_of(at) for at in range(WORKLOADS)])
    _check(screen)
    size = f"{WORKLOADS * PODS:,} pods in {WORKLOADS:,} VPAs"
    plans = _planned() * WORKLOADS
    rows = [within(f"{size}, nothing to do: screen (peer: a plan for each)", _screened(screen), SECONDS, plans)]
    rows += [
        Row(f"screen: {what}", f"{seconds * 1e6:.0f} us", bar=f"<= {CHANGE * 1e6:.0f} us", met=seconds <= CHANGE)
        for what, seconds in _changes(screen)
    ]
    rows.append(Row(f"screen: all {size} put", in_ms(spent)))
    rows.append(Row(f"screen: all {WORKLOADS:,} VPAs put with other advice", in_ms(_advised(screen))))
    rows.append(Row("screen: memory per pod", f"{_weight():,.0f} bytes"))
    return rows


def fill(screen: Screen, governors: Sequence[Governor]) -> float:
    """Put workloads and all their pods, which takes so many seconds."""
    spent = 0.0
    for at, governor in enumerate(governors):
        pods = [seen(at, number) for number in range(PODS)]
        start = time.perf_counter()
        key = screen.put(governor, limits_of(at))
        for pod in pods:
            screen.put_pod(key, pod)
        spent += time.perf_counter() - start
    return spent


def _check(screen: Screen) -> None:
    """Nobody needs anything, and of all of them the one that does is found."""
    if found := screen.screen(NOW).workloads:
        raise CannotMeasure(f"{len(found):,} workloads need something, and none should")
    at = WORKLOADS // 2
    key = WorkloadKey.of(governor_of(at))
    screen.put_pod(key, seen(at, 3, more=-50))
    if screen.screen(NOW).workloads != (key,):
        raise CannotMeasure("the workload that needs something was not found")
    screen.put_pod(key, seen(at, 3))


def _changes(screen: Screen) -> Iterator[tuple[str, float]]:
    """What one thing costs that changes, on the average of many."""
    some = range(0, WORKLOADS, WORKLOADS // 500)
    keys = {at: WorkloadKey.of(governor_of(at)) for at in some}
    pods = {at: seen(at, 1) for at in some}
    grown = {at: seen(at, 1, more=7) for at in some}
    advised = {at: governor_of(at, more=1) for at in some}
    yield "a pod read, not put", _each(some, lambda at: PodView.of(pods[at].pod))
    yield "a pod whose status changed, put", _each(some, lambda at: screen.put_pod(keys[at], pods[at]))
    yield "a pod of another size, put", _each(some, lambda at: screen.put_pod(keys[at], grown[at]))
    yield "a pod dropped", _each(some, lambda at: screen.drop_pod(pods[at].ref.uid))
    for at in some:
        screen.put_pod(keys[at], pods[at])
    yield "a VPA with other advice, put", _each(some, lambda at: screen.put(advised[at], limits_of(at)))
    for at in some:
        screen.put(governor_of(at), limits_of(at))


def _advised(screen: Screen) -> float:
    governors = [governor_of(at, more=1) for at in range(WORKLOADS)]
    start = time.perf_counter()
    for at, governor in enumerate(governors):
        screen.put(governor, limits_of(at))
    screen.screen(NOW)
    return time.perf_counter() - start


def _planned() -> float:
    """One plan, on the average of some."""
    some = range(0, WORKLOADS, WORKLOADS // 200)
    views = {
        at: WorkloadView(governor_of(at), tuple(seen(at, each) for each in range(PODS)), limits=limits_of(at))
        for at in some
    }
    return _each(some, lambda at: plan(views[at], NOW, UpdateSettings()))


def _weight() -> float:
    """Bytes of a pod; governors are there in any case, and do not count."""
    governors = [governor_of(at) for at in range(WEIGHED)]
    gc.collect()
    tracemalloc.start()
    screen = Screen(UpdateSettings())
    before = tracemalloc.get_traced_memory()[0]
    fill(screen, governors)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / (WEIGHED * PODS)


def _screened(screen: Screen) -> float:
    return min(_each(range(1), lambda _: screen.screen(NOW)) for _ in range(ROUNDS))


def _each(some: range, work: Callable[[int], object]) -> float:
    start = time.perf_counter()
    for at in some:
        work(at)
    return (time.perf_counter() - start) / len(some)


def limits_of(at: int) -> NamespaceLimits:
    """What a LimitRange says about the namespace of a workload."""
    return _LIMITED if at % 3 == 0 else NamespaceLimits()


def governor_of(at: int, *, more: int = 0) -> Governor:
    """What governs a workload; with `more`, another recommendation, still within what is worth nothing."""
    recommended = [
        {
            "containerName": name,
            "target": _amounts(at, more),
            "lowerBound": _amounts(at, -20),
            "upperBound": _amounts(at, 20),
        }
        for name in ("app", "proxy")
    ]
    policy: Json = {"updateMode": _MODES[at % len(_MODES)]}
    if at % 10 == 0:
        policy["evictionRequirements"] = [
            {"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}
        ]
    spec: Json = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{at}"}}
    spec["updatePolicy"] = policy
    if at % 4 == 0:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "8"}}]}
    document = {
        "kind": "VerticalPodAutoscaler",
        "apiVersion": "autoscaling.k8s.io/v1",
        "metadata": {"name": f"web-{at}", "namespace": f"team-{at % 400}", "uid": f"vpa-{at}"},
        "spec": spec,
        "status": {"recommendation": {"containerRecommendations": recommended}},
    }
    found = vpa_governor(msgspec.convert(document, VerticalPodAutoscaler))
    assert found is not None
    return found


def seen(at: int, number: int, *, more: int = 0) -> PodView:
    """A pod of a workload, as the API server would tell; with `more`, of another size."""
    resources: Json = {"requests": _amounts(at, more)}
    if at % 2:
        resources["limits"] = {name: _text(name, 2 * amount) for name, amount in _numbers(at, more).items()}
    born = "2026-06-01T08:00:00Z"
    document = {
        "metadata": {
            "name": f"web-{at}-5d{at:07x}-{number}",
            "namespace": f"team-{at % 400}",
            "uid": f"{at:08x}-0000-4000-a000-{number:012x}",
            "creationTimestamp": born,
            "annotations": {"vpaObservedContainers": "app, proxy"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{at}-5d{at:07x}", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-{(at * PODS + number) % 3000}",
            "containers": [{"name": name, "resources": resources} for name in ("app", "proxy")],
        },
        "status": {
            "phase": "Running",
            "startTime": born,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": born}],
            "containerStatuses": [{"name": name, "resources": resources} for name in ("app", "proxy")],
        },
    }
    return PodView.of(msgspec.convert(document, Pod))


def _numbers(at: int, more: int) -> dict[str, int]:
    """Millicores and bytes, more by so many percent."""
    return {
        "cpu": (100 + at % 3000) * (100 + more) // 100,
        "memory": (64 + at % 4000) * (100 + more) // 100 * _MIB,
    }


def _amounts(at: int, more: int) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in _numbers(at, more).items()}


def _text(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else f"{amount // _MIB}Mi"
