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
from bench.recommender.cluster import wait_for
from bench.updater.cluster import LARGE_NODE, Calls, Group, announce_admission, count_calls, list_ready_pods, populate
from bench.updater.unboost_times import measure_unboost_delays
from testbed.access import shipped_accounts, upstream_accounts
from testbed.access.kubeconfigs import service_account_token
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.scratch import scratch

REPLACING = BARE | {"kube-controller-manager", "kwok"}

SMALL, LARGE = 250, 1_000
IN_FLIGHT = 16
# Dry runs beside the real one: others on the same machine may disturb a fraction of a second more than a minute.
DECIDING = 4
RATES = ("--kube-api-qps=500", "--kube-api-burst=1000")
# Upstream begins with its first pass after one interval, and gives a pass no more time than that.
UPSTREAM_INTERVAL = 40

PASS_SECONDS, DECISION_SECONDS = 15.0, 0.3
CALLS, SHARE = 1.05, 0.8
UNBOOST_MEDIAN, UNBOOST_WORST = 0.5, 2.0

UPSTREAM_GROUP, TRELLIS_GROUP = Group("upstream", SMALL), Group("ours", SMALL)
LARGE_GROUP = Group("many", LARGE)
LOOPS = tuple(Group(f"loop-{number}", SMALL, governed=False) for number in range(2))
IN_PLACE = Group("in-place", SMALL, mode="InPlaceOrRecreate")
BOOSTED = (Group("boost-0", SMALL // 2, boost=0), Group("boost-3", SMALL // 2, boost=3))

LATENCY = "vpa_updater_execution_latency_seconds"
RESIZED = "vpa_updater_in_place_updated_pods"
EVICTING, TOTAL = "EvictPods", "total"

# Events apart; informers list and watch when they begin; the API server renews a Lease of its own.
_EXCLUDED_RESOURCES = {"events"}
_EXCLUDED_VERBS = {"LIST", "WATCH"}
_EXCLUDED_CALLS = {("PUT", "leases", "")}


class Side(msgspec.Struct, frozen=True):
    """An updater to run."""

    name: str
    command: tuple[str | Path, ...]
    kubeconfig: Path
    flags: tuple[str, ...]


class PassMeasurement(msgspec.Struct, frozen=True):
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


class Testbed(msgspec.Struct, frozen=True):
    """Where everything runs."""

    cluster: Cluster
    directory: Path


def measure() -> list[Row]:
    try:
        with _populated(BARE, (UPSTREAM_GROUP, TRELLIS_GROUP, LARGE_GROUP, *LOOPS, IN_PLACE, *BOOSTED)) as ground:
            trellis, upstream = _trellis_side(ground.cluster), _upstream_side(ground.cluster)
            peer = measure_evictions(ground, upstream, UPSTREAM_GROUP)
            small = measure_evictions(ground, trellis, TRELLIS_GROUP)
            dry = [measure_decisions(ground, trellis) for _ in range(DECIDING)]
            before = measure_bare_loop(ground, LOOPS[0])
            large = measure_evictions(ground, trellis, LARGE_GROUP)
            after = measure_bare_loop(ground, LOOPS[1])
            resized = count_resize_calls(ground, trellis)
            times = measure_unboosts(ground, trellis)
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    deciding = median([*dry, large.decisions])
    return [
        *compare(small, peer),
        *build_bar_rows(large, deciding, _mean(before, after)),
        _in_place(resized),
        *_unboosts(times),
    ]


def measure_replaced() -> list[Row]:
    """Ours where controllers and kubelets replace what is evicted, which takes most of two cores."""
    large, *loops = (msgspec.structs.replace(group, replaced=True) for group in (LARGE_GROUP, *LOOPS))
    try:
        with _populated(REPLACING, (large, *loops)) as ground:
            side = _trellis_side(ground.cluster)
            before = measure_bare_loop(ground, loops[0])
            earlier = count_calls(ground.cluster)
            with _running(ground, side, large) as controller:
                steps = _first_pass(controller)
            evictions = (count_calls(ground.cluster) - earlier).count("POST", "pods", "eviction")
            _report(f"ours: a pass of {steps[TOTAL]:.2f} s, {evictions} evictions at its end")
            if evictions < LARGE:
                raise CannotMeasure(f"{evictions} pods of {LARGE} ReplicaSets were evicted")
            after = measure_bare_loop(ground, loops[1])
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    title = f"{LARGE:,} VPAs, {large.pods:,} pods to evict, replaced: a pass"
    return [within(title, steps[TOTAL], PASS_SECONDS), _build_rate_row(LARGE / steps[TOTAL], _mean(before, after))]


def compare(trellis: PassMeasurement, upstream: PassMeasurement) -> list[Row]:
    """The same for both."""

    def row(title: str, value: float, peer: float, shown: str) -> Row:
        return Row(title, shown.format(value), shown.format(peer), f"{peer / value:.1f}x" if value else "-")

    return [
        row(
            f"{SMALL:,} VPAs, {TRELLIS_GROUP.pods:,} pods to evict: a pass",
            trellis.seconds,
            upstream.seconds,
            "{:.2f} s",
        ),
        row("  requests for an eviction", trellis.calls, upstream.calls, "{:.2f}"),
        row("  CPU of the process", trellis.cpu, upstream.cpu, "{:.2f} s"),
        row("  peak memory", trellis.peak, upstream.peak, "{:.0f} MB"),
    ]


def build_bar_rows(large: PassMeasurement, deciding: float, bare_rate: float) -> list[Row]:
    """Ours with many, against its bars and the bare loop."""
    return [
        within(f"{LARGE:,} VPAs, {LARGE_GROUP.pods:,} pods to evict: a pass", large.seconds, PASS_SECONDS),
        within(f"  decisions, median of {DECIDING} dry runs and this one", deciding, DECISION_SECONDS),
        Row("    of this one, while its evictions began", in_ms(large.decisions)),
        Row("  requests for an eviction", f"{large.calls:.3f}", bar=f"<= {CALLS:g}", met=large.calls <= CALLS),
        _build_rate_row(large.rate, bare_rate),
        Row("  CPU of the process", f"{large.cpu:.2f} s"),
        Row("  peak memory", f"{large.peak:.0f} MB"),
    ]


def _build_rate_row(rate: float, bare_rate: float) -> Row:
    title = f"  evictions; peer: a bare loop, {IN_FLIGHT} in flight"
    share = rate / bare_rate
    return Row(title, f"{rate:.0f}/s", f"{bare_rate:.0f}/s", f"{share:.2f}x", f">= {SHARE:g}x", share >= SHARE)


def _mean(before: float, after: float) -> float:
    """Of two rates at which the same number was evicted."""
    return 2 / (1 / before + 1 / after)


def _in_place(calls: Calls) -> Row:
    resizes_per_pod, annotations_per_pod = (calls.count("PATCH", "pods", sub) / IN_PLACE.pods for sub in ("resize", ""))
    title = f"{IN_PLACE.pods:,} pods in place: resizes (+ annotations) of a pod"
    return Row(title, f"{resizes_per_pod:.2f} (+ {annotations_per_pod:.2f})", bar="1", met=resizes_per_pod == 1.0)


def _unboosts(times: list[float]) -> list[Row]:
    title = f"{len(times):,} boosts over within 13 s: median delay"
    return [within(title, median(times), UNBOOST_MEDIAN), within("  worst", times[-1], UNBOOST_WORST)]


def measure_evictions(ground: Testbed, side: Side, group: Group) -> PassMeasurement:
    """One pass that evicts a pod of each of them."""
    before = count_calls(ground.cluster)
    with _running(ground, side, group) as controller:
        steps = _first_pass(controller)
        usage = cpu_seconds(controller.process.pid), peak_megabytes(controller.process.pid)
    calls = count_calls(ground.cluster) - before
    evicted_pods = group.pods - len(ground.cluster.api.list_items(group.path))
    if evicted_pods != group.vpas:
        raise CannotMeasure(f"{side.name} evicted {evicted_pods} pods of {group.vpas} ReplicaSets")
    _report(f"{side.name}: {evicted_pods} evictions in {steps[TOTAL]:.2f} s, {dict(_eviction_calls(calls))}")
    return PassMeasurement(group, steps, *usage, sum(count for _, count in _eviction_calls(calls)) / evicted_pods)


def measure_decisions(ground: Testbed, side: Side) -> float:
    """Seconds of the decisions of a pass that changes nothing."""
    with _running(ground, side, LARGE_GROUP, "--dry-run") as controller:
        steps = _first_pass(controller)
    _report(f"a dry run: decisions {in_ms(steps[TOTAL] - steps[EVICTING])}")
    return steps[TOTAL] - steps[EVICTING]


def _first_pass(controller: Controller) -> dict[str, float]:
    """Seconds of its steps, once it is over."""

    def is_over() -> bool:
        controller.process.check()
        return _count_passes(controller) >= 1

    wait_for("a pass", is_over, 200.0, every=1.0)
    return {step: seconds for (name, step), seconds in _read_samples(controller).items() if name == f"{LATENCY}_sum"}


def measure_bare_loop(ground: Testbed, group: Group) -> float:
    """Evictions a second, with nothing else done beside them."""
    token = service_account_token(ground.cluster.api, "vpa-updater", "kube-system")
    names = list_ready_pods(ground.cluster, group)
    rate = len(names) / send_all(ground.cluster, ([_eviction(group, name)] for name in names), IN_FLIGHT, token)
    _report(f"a bare loop: {rate:.0f} evictions/s")
    return rate


def count_resize_calls(ground: Testbed, side: Side) -> Calls:
    """What is asked of the API server until all pods are resized, and for two more passes."""
    before = count_calls(ground.cluster)
    flags = ("--in-place-skip-disruption-budget", "--updater-interval=2s")
    with _running(ground, side, IN_PLACE, *flags) as controller:

        def are_all_resized() -> bool:
            return _read_samples(controller).get((f"{RESIZED}_total", ""), 0.0) >= IN_PLACE.pods

        wait_for("all resizes", are_all_resized, 60.0, every=1.0)
        target_passes = _count_passes(controller) + 2
        wait_for("two more passes", lambda: _count_passes(controller) >= target_passes, 30.0, every=1.0)
    calls = count_calls(ground.cluster) - before
    _report(f"in place: {dict(_eviction_calls(calls))}")
    return calls


def measure_unboosts(ground: Testbed, side: Side) -> list[float]:
    """Seconds until each boost is taken back after its moment."""
    with _running(ground, side, None, f"--ignored-vpa-object-namespaces={LARGE_GROUP.namespace}") as controller:
        _first_pass(controller)
        times = measure_unboost_delays(ground.cluster, BOOSTED)
    _report(f"unboosts: median {median(times):.3f}, worst {times[-1]:.3f}")
    return times


@contextmanager
def _populated(parts: frozenset[str], groups: Sequence[Group]) -> Iterator[Testbed]:
    """From when all pods are there."""
    began = time.monotonic()
    controlled = parts != BARE
    with (
        scratch() as directory,
        ControlPlane(directory, parts, (LARGE_NODE,) if controlled else (), list_definitions()) as plane,
    ):
        cluster = plane.cluster
        if not controlled:
            cluster.api.create(LARGE_NODE.build_manifest())
        announce_admission(cluster)
        for group in groups:
            populate(cluster, group)
        if controlled:
            wait_for(
                "all pods", lambda: all(len(list_ready_pods(cluster, group)) == group.pods for group in groups), 300.0
            )
        _report(f"all pods are there after {time.monotonic() - began:.0f} s")
        yield Testbed(cluster, directory)


@contextmanager
def _running(ground: Testbed, side: Side, group: Group | None, *flags: str) -> Iterator[Controller]:
    """For the VPAs of a group, or for all."""
    scope = [f"--vpa-object-namespace={group.namespace}"] if group is not None else []
    log = ground.directory / f"{side.name}-{group.namespace if group else 'all'}.log"
    with run_controller(side.command, side.kubeconfig, log, [*side.flags, *scope, *flags]) as controller:
        yield controller


def _upstream_side(cluster: Cluster) -> Side:
    flags = (f"--updater-interval={UPSTREAM_INTERVAL}s", *RATES)
    return Side("upstream", (upstream_accounts.UPDATER.path(),), upstream_accounts.UPDATER.kubeconfig(cluster), flags)


def _trellis_side(cluster: Cluster) -> Side:
    command = (sys.executable, "-m", "trellis", "updater")
    return Side(
        "ours", command, shipped_accounts.create_account(cluster, "updater"), (f"--concurrent-writes={IN_FLIGHT}",)
    )


def _eviction(group: Group, name: str) -> Request:
    metadata = {"name": name, "namespace": group.namespace}
    return created(
        f"{group.path}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    )


def _eviction_calls(calls: Calls) -> Iterator[tuple[str, int]]:
    """Those that an updater makes for its evictions."""
    for key, count in calls.by_kind.items():
        verb, resource, subresource = key
        if (
            resource
            and resource not in _EXCLUDED_RESOURCES
            and verb not in _EXCLUDED_VERBS
            and key not in _EXCLUDED_CALLS
        ):
            yield " ".join((verb, resource, subresource)).strip(), count


def _count_passes(controller: Controller) -> float:
    return _read_samples(controller).get((f"{LATENCY}_count", TOTAL), 0.0)


def _read_samples(controller: Controller) -> dict[tuple[str, str], float]:
    """Samples by name and step; those of one name are summed up."""
    numbers: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(controller.read_metrics()):
        if family.name in (LATENCY, RESIZED):
            for sample in family.samples:
                key = sample.name, sample.labels.get("step", "")
                numbers[key] = numbers.get(key, 0.0) + sample.value
    return numbers


def _report(message: str) -> None:
    """Print progress at once."""
    print(f"updater_side_by_side: {message}", file=sys.stderr, flush=True)
