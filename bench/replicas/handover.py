"""Measures how long components and namespaces are without a replica when one is killed, ends, or is added.

Real processes on a real API server, on which nothing else runs. A component is without a leader from the signal until
another process holds its Lease. A namespace is unserved from when its recommender no longer serves it until another
one's pass has had its VPA; each is asked about every namespace all the time.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

from bench.measurement import CannotMeasure, Row, within
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.scratch import scratch
from testbed.waiting import TIMEOUT_SECONDS, until

COMPONENTS: Mapping[str, str] = {
    "recommender": "vpa-recommender-lease",
    "updater": "vpa-updater",
    "hvpa": "trellis-hvpa",
    "buffers": "trellis-buffers",
}
NAMESPACES = tuple(f"team-{number}" for number in range(20))
ROUNDS = 5
KILL_BAR, STOP_BAR, UNSERVED_BAR = 15.0, 2.0, 30.0

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
_PROGRAM = str(Path(sys.executable).with_name("trellis"))
_PAUSE = 0.02
_VPA = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}

Start = Callable[[], Controller]


def measure() -> list[Row]:
    """Handovers of `trellis run` and of recommenders that share namespaces."""
    try:
        with scratch() as directory, ControlPlane(directory, BARE) as plane:
            plane.cluster.install_definitions(list_definitions())
            return [*_measure_leaders(plane.cluster, directory), *_measure_shards(plane.cluster, directory)]
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error


@contextmanager
def _processes(cluster: Cluster, directory: Path, command: str, *flags: str) -> Iterator[Start]:
    started: list[Controller] = []
    with ExitStack() as running:

        def start() -> Controller:
            log = directory / f"{command}-{len(started)}.log"
            started.append(running.enter_context(run_controller([_PROGRAM, command], cluster.kubeconfig, log, flags)))
            return started[-1]

        yield start


def _measure_leaders(cluster: Cluster, directory: Path) -> list[Row]:
    times: dict[signal.Signals, list[float]] = {signal.SIGKILL: [], signal.SIGTERM: []}
    with _processes(cluster, directory, "run", f"--components={','.join(COMPONENTS)}") as start:
        victim = start()
        until("the first to lead", lambda: _list_led(victim) == {*COMPONENTS})
        for number in [*times] * ROUNDS:
            successor = start()
            until("leaders to be spread", partial(_are_spread, victim, successor))
            times[number].append(_time_takeover(cluster, victim, number))
            victim = successor
    what = f"trellis run, two replicas, {len(COMPONENTS)} components: all led again after"
    return [
        within(f"{what} kill -9, longest of {ROUNDS}", max(times[signal.SIGKILL]), KILL_BAR),
        within(f"{what} SIGTERM, longest of {ROUNDS}", max(times[signal.SIGTERM]), STOP_BAR),
    ]


def _time_takeover(cluster: Cluster, victim: Controller, number: signal.Signals) -> float:
    """Seconds from a signal until the Leases of a process are held by another one."""
    before = {COMPONENTS[name]: _read_holder(cluster, COMPONENTS[name]) for name in _list_led(victim)}
    began = time.monotonic()
    victim.process.send(number)
    for lease, holder in before.items():
        while _read_holder(cluster, lease) in ("", holder):
            if time.monotonic() > began + TIMEOUT_SECONDS:
                raise CannotMeasure(f"{lease} was not taken within {TIMEOUT_SECONDS:g} s")
            time.sleep(_PAUSE)
    return time.monotonic() - began


def _read_holder(cluster: Cluster, lease: str) -> str:
    holder: str = cluster.api.get(f"{_LEASES}/{lease}")["spec"].get("holderIdentity", "")
    return holder


def _list_led(replica: Controller) -> set[str]:
    lines = [line for line in replica.read_metrics().splitlines() if line.startswith("trellis_component_leader{")]
    return {line.split('"')[1] for line in lines if float(line.rpartition(" ")[2]) == 1.0}


def _are_spread(one: Controller, other: Controller) -> bool:
    led = [_list_led(one), _list_led(other)]
    return not led[0] & led[1] and led[0] | led[1] == {*COMPONENTS} and len(led[0]) == len(led[1])


def _measure_shards(cluster: Cluster, directory: Path) -> list[Row]:
    for namespace in NAMESPACES:
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        cluster.api.create(_VPA, namespace)
    flags = ("--shard-namespaces", "--recommender-interval=1s")
    gaps: dict[str, float] = {}
    with _processes(cluster, directory, "recommender", *flags) as start:
        running = [start(), start(), start()]
        until("three to share the namespaces", partial(_is_settled, running))
        for what, change in (
            ("one of three is killed", lambda: running.pop(0).process.send(signal.SIGKILL)),
            ("one is added", lambda: running.append(start())),
            ("one of three ends", lambda: running.pop(0).process.send(signal.SIGTERM)),
        ):
            gaps[what] = _find_longest_gap(running, change)
    what = f"recommenders share {len(NAMESPACES)} namespaces: a VPA was unserved for, at most, while"
    return [within(f"{what} {change}", seconds, UNSERVED_BAR) for change, seconds in gaps.items()]


def _find_longest_gap(running: list[Controller], change: Callable[[], object]) -> float:
    """The longest time for which a namespace was unserved from a change until all namespaces have settled."""
    began = time.monotonic()
    served_at = dict.fromkeys(NAMESPACES, began)
    longest = 0.0
    change()
    is_settled = False
    while not is_settled:
        if time.monotonic() > began + TIMEOUT_SECONDS:
            raise CannotMeasure(f"namespaces were not served by {len(running)} within {TIMEOUT_SECONDS:g} s")
        served = [_list_served(replica) for replica in running]
        now = time.monotonic()
        for namespace in frozenset().union(*served):
            longest = max(longest, now - served_at[namespace])
            served_at[namespace] = now
        is_settled = _is_settled(running)
    return longest


def _is_settled(running: Sequence[Controller]) -> bool:
    """Whether each namespace has one replica, and all of them know that they are so many."""
    served = [namespace for replica in running for namespace in _list_served(replica)]
    return sorted(served) == sorted(NAMESPACES) and all(_read_members(replica) == len(running) for replica in running)


def _read_members(replica: Controller) -> float:
    lines = replica.read_metrics().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith("trellis_shard_members{"))


def _list_served(replica: Controller) -> frozenset[str]:
    return frozenset(name for name in NAMESPACES if replica.get(f"/recommendations/{name}/web")[0] == HTTPStatus.OK)
