"""Compares upstream's updater with ours, in turn, on the same API server: each VPA has two pods to be evicted.

Each evicts one pod of each ReplicaSet, because of its tolerance, and has then nothing more to do. Both run under their
own ServiceAccounts with the rights that they ship with, ask for the same Lease of an admission controller, and get
generous rates (`RATES`); ours has no limit by default. Nothing replaces the pods, so that the API server has nothing
else to do: it takes a tenth of a second for an eviction, and that is all upstream waits for, one after the other. Where
pods are replaced (`measure_replaced`) they come back as they were, which ours notices and leaves them alone.

A bare loop that evicts pods with as many requests in flight as ours runs before and after it. Requests are counted by
the API server, without Events, without the lists and watches of the beginning, and without its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bench.client.request_rate import Request, created, send_all
from bench.measurement import CannotMeasure, Row, in_ms, within
from bench.process_usage import cpu_seconds, peak_megabytes
from bench.recommender.cluster import patiently
from bench.updater.cluster import ROOM, Calls, Group, announce_admission, counted, pods_of, populate
from bench.updater.unboost_times import unboost_times
from testbed.access import shipped_accounts, upstream_accounts
from testbed.access.kubeconfigs import service_account_token
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.controllers import Controller, running
from testbed.errors import HarnessError
from testbed.keeper import definitions
from testbed.scratch import scratch

REPLACING = BARE | {"kube-controller-manager", "kwok"}

SMALL, LARGE = 250, 1_000
IN_FLIGHT = 16
# Dry runs beside the real one: others on the same machine may disturb a fraction of a second more than a minute.
DECIDING = 4
RATES = ("--kube-api-qps=500", "--kube-api-burst=1000")
# Upstream begins with its first pass after one interval, and gives a pass no more time than that.
THEIR_INTERVAL = 40

PASS_SECONDS, DECISION_SECONDS = 15.0, 0.3
CALLS, SHARE = 1.05, 0.8
UNBOOST_MEDIAN, UNBOOST_WORST = 0.5, 2.0

THEIRS, OURS = Group("upstream", SMALL), Group("ours", SMALL)
MANY = Group("many", LARGE)
LOOPS = tuple(Group(f"loop-{number}", SMALL, governed=False) for number in range(2))
IN_PLACE = Group("in-place", SMALL, mode="InPlaceOrRecreate")
BOOSTED = (Group("boost-0", SMALL // 2, boost=0), Group("boost-3", SMALL // 2, boost=3))

LATENCY = "vpa_updater_execution_latency_seconds"
RESIZED = "vpa_updater_in_place_updated_pods"
EVICTING, TOTAL = "EvictPods", "total"

# Events apart; informers list and watch when they begin; the API server renews a Lease of its own.
_APART = {"events"}
_BEGINNING = {"LIST", "WATCH"}
_ITS_OWN = {("PUT", "leases", "")}


class Side(msgspec.Struct, frozen=True):
    """An updater to run."""

    name: str
    command: tuple[str | Path, ...]
    kubeconfig: Path
    flags: tuple[str, ...]


class Taken(msgspec.Struct, frozen=True):
    """What one pass took: seconds of its steps and of CPU, memory in megabytes, requests for each eviction."""

    group: Group
    steps: dict[str, float]
    cpu: float
    peak: float
    calls: float

    @property
    def seconds(self) -> float:
        return self.steps[TOTAL]

    @property
    def decisions(self) -> float:
        """All that comes before the rest of the writes is waited for; the first of them are under way by then."""
        return self.seconds - self.steps[EVICTING]

    @property
    def rate(self) -> float:
        return self.group.vpas / self.seconds


class Ground(msgspec.Struct, frozen=True):
    """Where everything runs."""

    cluster: Cluster
    directory: Path


def measure() -> list[Row]:
    try:
        with _populated(BARE, (THEIRS, OURS, MANY, *LOOPS, IN_PLACE, *BOOSTED)) as ground:
            ours, theirs = _our_side(ground.cluster), _their_side(ground.cluster)
            peer = evicted(ground, theirs, THEIRS)
            small = evicted(ground, ours, OURS)
            dry = [decided(ground, ours) for _ in range(DECIDING)]
            before = loop(ground, LOOPS[0])
            large = evicted(ground, ours, MANY)
            after = loop(ground, LOOPS[1])
            resized = resizes(ground, ours)
            times = unboosted(ground, ours)
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    deciding = median([*dry, large.decisions])
    return [
        *compared(small, peer),
        *barred(large, deciding, _mean(before, after)),
        _in_place(resized),
        *_unboosts(times),
    ]


def measure_replaced() -> list[Row]:
    """Ours where controllers and kubelets replace what is evicted, which takes most of two cores."""
    many, *loops = (msgspec.structs.replace(each, replaced=True) for each in (MANY, *LOOPS))
    try:
        with _populated(REPLACING, (many, *loops)) as ground:
            side = _our_side(ground.cluster)
            before = loop(ground, loops[0])
            earlier = counted(ground.cluster)
            with _running(ground, side, many) as controller:
                steps = _first_pass(controller)
            asked = (counted(ground.cluster) - earlier).of("POST", "pods", "eviction")
            _say(f"ours: a pass of {steps[TOTAL]:.2f} s, {asked} evictions at its end")
            if asked < LARGE:
                raise CannotMeasure(f"{asked} pods of {LARGE} ReplicaSets were evicted")
            after = loop(ground, loops[1])
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    what = f"{LARGE:,} VPAs, {many.pods:,} pods to evict, replaced: a pass"
    return [within(what, steps[TOTAL], PASS_SECONDS), _shared(LARGE / steps[TOTAL], _mean(before, after))]


def compared(ours: Taken, theirs: Taken) -> list[Row]:
    """The same for both."""

    def row(what: str, mine: float, peers: float, shown: str) -> Row:
        return Row(what, shown.format(mine), shown.format(peers), f"{peers / mine:.1f}x" if mine else "-")

    return [
        row(f"{SMALL:,} VPAs, {OURS.pods:,} pods to evict: a pass", ours.seconds, theirs.seconds, "{:.2f} s"),
        row("  requests for an eviction", ours.calls, theirs.calls, "{:.2f}"),
        row("  CPU of the process", ours.cpu, theirs.cpu, "{:.2f} s"),
        row("  peak memory", ours.peak, theirs.peak, "{:.0f} MB"),
    ]


def barred(taken: Taken, deciding: float, bare: float) -> list[Row]:
    """Ours with many, against its bars and the bare loop."""
    return [
        within(f"{LARGE:,} VPAs, {MANY.pods:,} pods to evict: a pass", taken.seconds, PASS_SECONDS),
        within(f"  decisions, median of {DECIDING} dry runs and this one", deciding, DECISION_SECONDS),
        Row("    of this one, while its evictions began", in_ms(taken.decisions)),
        Row("  requests for an eviction", f"{taken.calls:.3f}", bar=f"<= {CALLS:g}", met=taken.calls <= CALLS),
        _shared(taken.rate, bare),
        Row("  CPU of the process", f"{taken.cpu:.2f} s"),
        Row("  peak memory", f"{taken.peak:.0f} MB"),
    ]


def _shared(rate: float, bare: float) -> Row:
    what = f"  evictions; peer: a bare loop, {IN_FLIGHT} in flight"
    share = rate / bare
    return Row(what, f"{rate:.0f}/s", f"{bare:.0f}/s", f"{share:.2f}x", f">= {SHARE:g}x", share >= SHARE)


def _mean(before: float, after: float) -> float:
    """Of two rates at which the same number was evicted."""
    return 2 / (1 / before + 1 / after)


def _in_place(calls: Calls) -> Row:
    each, marks = (calls.of("PATCH", "pods", sub) / IN_PLACE.pods for sub in ("resize", ""))
    what = f"{IN_PLACE.pods:,} pods in place: resizes (+ annotations) of a pod"
    return Row(what, f"{each:.2f} (+ {marks:.2f})", bar="1", met=each == 1.0)


def _unboosts(times: list[float]) -> list[Row]:
    what = f"{len(times):,} boosts over within 13 s: median delay"
    return [within(what, median(times), UNBOOST_MEDIAN), within("  worst", times[-1], UNBOOST_WORST)]


def evicted(ground: Ground, side: Side, group: Group) -> Taken:
    """One pass that evicts a pod of each of them."""
    before = counted(ground.cluster)
    with _running(ground, side, group) as controller:
        steps = _first_pass(controller)
        usage = cpu_seconds(controller.process.pid), peak_megabytes(controller.process.pid)
    calls = counted(ground.cluster) - before
    gone = group.pods - len(ground.cluster.api.items(group.path))
    if gone != group.vpas:
        raise CannotMeasure(f"{side.name} evicted {gone} pods of {group.vpas} ReplicaSets")
    _say(f"{side.name}: {gone} evictions in {steps[TOTAL]:.2f} s, {dict(_counting(calls))}")
    return Taken(group, steps, *usage, sum(count for _, count in _counting(calls)) / gone)


def decided(ground: Ground, side: Side) -> float:
    """Seconds of the decisions of a pass that changes nothing."""
    with _running(ground, side, MANY, "--dry-run") as controller:
        steps = _first_pass(controller)
    _say(f"a dry run: decisions {in_ms(steps[TOTAL] - steps[EVICTING])}")
    return steps[TOTAL] - steps[EVICTING]


def _first_pass(controller: Controller) -> dict[str, float]:
    """Seconds of its steps, once it is over."""

    def over() -> bool:
        controller.process.check()
        return _passes(controller) >= 1

    patiently("a pass", over, 200.0, every=1.0)
    return {step: seconds for (name, step), seconds in _numbers(controller).items() if name == f"{LATENCY}_sum"}


def loop(ground: Ground, group: Group) -> float:
    """Evictions a second, with nothing else done beside them."""
    token = service_account_token(ground.cluster.api, "vpa-updater", "kube-system")
    names = pods_of(ground.cluster, group)
    rate = len(names) / send_all(ground.cluster, ([_eviction(group, name)] for name in names), IN_FLIGHT, token)
    _say(f"a bare loop: {rate:.0f} evictions/s")
    return rate


def resizes(ground: Ground, side: Side) -> Calls:
    """What is asked of the API server until all pods are resized, and for two more passes."""
    before = counted(ground.cluster)
    flags = ("--in-place-skip-disruption-budget", "--updater-interval=2s")
    with _running(ground, side, IN_PLACE, *flags) as controller:

        def resized() -> bool:
            return _numbers(controller).get((f"{RESIZED}_total", ""), 0.0) >= IN_PLACE.pods

        patiently("all resizes", resized, 60.0, every=1.0)
        wanted = _passes(controller) + 2
        patiently("two more passes", lambda: _passes(controller) >= wanted, 30.0, every=1.0)
    calls = counted(ground.cluster) - before
    _say(f"in place: {dict(_counting(calls))}")
    return calls


def unboosted(ground: Ground, side: Side) -> list[float]:
    """Seconds until each boost is taken back after its moment."""
    with _running(ground, side, None, f"--ignored-vpa-object-namespaces={MANY.namespace}") as controller:
        _first_pass(controller)
        times = unboost_times(ground.cluster, BOOSTED)
    _say(f"unboosts: median {median(times):.3f}, worst {times[-1]:.3f}")
    return times


@contextmanager
def _populated(parts: frozenset[str], groups: Sequence[Group]) -> Iterator[Ground]:
    """From when all pods are there."""
    began = time.monotonic()
    controlled = parts != BARE
    with (
        scratch() as directory,
        ControlPlane(directory, parts, (ROOM,) if controlled else (), definitions()) as plane,
    ):
        cluster = plane.cluster
        if not controlled:
            cluster.api.create(ROOM.manifest())
        announce_admission(cluster)
        for group in groups:
            populate(cluster, group)
        if controlled:
            patiently("all pods", lambda: all(len(pods_of(cluster, group)) == group.pods for group in groups), 300.0)
        _say(f"all pods are there after {time.monotonic() - began:.0f} s")
        yield Ground(cluster, directory)


@contextmanager
def _running(ground: Ground, side: Side, group: Group | None, *flags: str) -> Iterator[Controller]:
    """For the VPAs of a group, or for all."""
    scope = [f"--vpa-object-namespace={group.namespace}"] if group is not None else []
    log = ground.directory / f"{side.name}-{group.namespace if group else 'all'}.log"
    with running(side.command, side.kubeconfig, log, [*side.flags, *scope, *flags]) as controller:
        yield controller


def _their_side(cluster: Cluster) -> Side:
    flags = (f"--updater-interval={THEIR_INTERVAL}s", *RATES)
    return Side("upstream", (upstream_accounts.UPDATER.path(),), upstream_accounts.UPDATER.kubeconfig(cluster), flags)


def _our_side(cluster: Cluster) -> Side:
    command = (sys.executable, "-m", "trellis", "updater")
    return Side("ours", command, shipped_accounts.account(cluster, "updater"), (f"--concurrent-writes={IN_FLIGHT}",))


def _eviction(group: Group, name: str) -> Request:
    metadata = {"name": name, "namespace": group.namespace}
    return created(
        f"{group.path}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    )


def _counting(calls: Calls) -> Iterator[tuple[str, int]]:
    """Those that an updater makes for its evictions."""
    for key, count in calls.by_kind.items():
        verb, resource, subresource = key
        if resource and resource not in _APART and verb not in _BEGINNING and key not in _ITS_OWN:
            yield " ".join((verb, resource, subresource)).strip(), count


def _passes(controller: Controller) -> float:
    return _numbers(controller).get((f"{LATENCY}_count", TOTAL), 0.0)


def _numbers(controller: Controller) -> dict[tuple[str, str], float]:
    """Samples by name and step; those of one name are summed up."""
    numbers: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(controller.metrics()):
        if family.name in (LATENCY, RESIZED):
            for sample in family.samples:
                key = sample.name, sample.labels.get("step", "")
                numbers[key] = numbers.get(key, 0.0) + sample.value
    return numbers


def _say(line: str) -> None:
    """Progress is for whoever waits, at once."""
    print(f"updater_side_by_side: {line}", file=sys.stderr, flush=True)
