"""Compares upstream's admission controller with ours, in turn, on the same cluster, by the same client over TLS.

Each runs alone on the first core, under its own ServiceAccount with the rights that it ships with; the client has the
second. They take turns several times, and every ratio is of two turns in a row, so that a machine which others use as
well slows down both; least of all that changes what a review costs in CPU. Both have to set the same requests and
limits in the same pods, or nothing is said at all.

Ours remembers what it has decided for pods that are all alike, as those of a rollout are, and upstream's does not; so
both are asked about pods whose like was seen before, and about pods with annotations that are new.
Upstream's runs with few logs (`QUIET`): a tenth of its time would go into lines of its log.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import TypeAlias

import msgspec

from bench.admission.cluster import Size, objects, review
from bench.admission.load import Load, load
from bench.admission.pod_creation import AddedLatency, measure_added_latency, prepare
from bench.measurement import CannotMeasure, Row, in_ms
from bench.process_usage import cpu_seconds, resident_megabytes
from bench.recommender.cluster import run_concurrently
from testbed.access import shipped_accounts, upstream_accounts
from testbed.access.certificates import Authority
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.processes import reserve_ports
from testbed.scratch import scratch
from testbed.waiting import until
from trellis.base.quantities import Quantity

SIZE = Size(1_000, 1_000)
CONCURRENCIES = (1, 16)
TURNS = 3
SECONDS = 3.0
QUIET = ("--v=1",)
PAIRS = 150
# Of a pod's creation through the API server, in seconds.
MOST_ADDED = 0.005

# Of pods that are alike there is one for each VPA; of the others more than a webhook remembers decisions.
BODIES = {"pods of rollouts": SIZE.vpas, "pods unlike all before": 6_000}
ALIKE, UNLIKE = BODIES
SAMPLE = 50

# What an answer sets: the path in the pod, down to the resource, and how much.
Set: TypeAlias = dict[str, Quantity]


class Side(msgspec.Struct, frozen=True):
    """An admission controller to run."""

    name: str
    command: tuple[str | Path, ...]
    kubeconfig: Path
    flags: tuple[str, ...] = ()


class LoadMeasurement(msgspec.Struct, frozen=True):
    """What the client saw, and CPU seconds of the server for one review."""

    load: Load
    cpu: float


class Figure(msgspec.Struct, frozen=True):
    """One number of a load, and how it is shown."""

    read: Callable[[LoadMeasurement], float]
    shown: str
    higher_is_better: bool = False


_RATE = Figure(lambda one: one.load.rate, "{:,.0f}/s", higher_is_better=True)
_P50 = Figure(lambda one: one.load.p50 * 1e3, "{:.2f} ms")
_P99 = Figure(lambda one: one.load.p99 * 1e3, "{:.2f} ms")
_CPU = Figure(lambda one: one.cpu * 1e6, "{:.0f} us")


class Turn(msgspec.Struct, frozen=True):
    """What one side did in one turn; loads by pods and concurrency, memory in megabytes."""

    sets: list[Set]
    loads: dict[tuple[str, int], LoadMeasurement]
    resident: float
    creation: AddedLatency


class Testbed(msgspec.Struct, frozen=True):
    """Where both run, and on which cores they and the client do."""

    cluster: Cluster
    directory: Path
    authority: Authority
    bodies: dict[str, list[bytes]]
    cores: tuple[int, int]


def measure() -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise CannotMeasure("one core for the servers and one for the client are needed")
    try:
        with _populated() as (cluster, directory):
            bodies = {
                what: [review(number, SIZE, restarted=what == UNLIKE) for number in range(count)]
                for what, count in BODIES.items()
            }
            ground = Testbed(cluster, directory, Authority.new("bench"), bodies, (cores[0], cores[1]))
            sides = (_upstream_side(cluster), _trellis_side(cluster))
            turns = [[_run_turn(ground, side, f"{side.name}-{turn}") for side in sides] for turn in range(TURNS)]
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    return rows([ours for _, ours in turns], [theirs for theirs, _ in turns])


def rows(trellis: Sequence[Turn], upstream: Sequence[Turn]) -> list[Row]:
    """Ours against theirs: medians over the turns. A ratio above 1 is in our favour."""
    _check_alike(trellis[0].sets, upstream[0].sets)
    result = [Row(f"reviews over TLS on one core, {SIZE}", "", "", "", "")]
    for what in BODIES:
        for concurrency in CONCURRENCIES:
            pairs = [
                (a.loads[what, concurrency], b.loads[what, concurrency]) for a, b in zip(trellis, upstream, strict=True)
            ]
            result += [
                _compared(f"  {what}, {concurrency} at a time", pairs, _RATE, bar=what == ALIKE),
                _compared("    p50", pairs, _P50),
                _compared("    p99", pairs, _P99),
                _compared("    CPU of one", pairs, _CPU, bar=True),
            ]
    value, peer = (median(turn.resident for turn in side) for side in (trellis, upstream))
    result.append(Row("  memory after it", f"{value:.0f} MB", f"{peer:.0f} MB", f"{peer / value:.2f}x"))
    return [*result, _creation(trellis, upstream)]


def _compared(
    title: str, pairs: Sequence[tuple[LoadMeasurement, LoadMeasurement]], figure: Figure, *, bar: bool = False
) -> Row:
    numbers = [(figure.read(value), figure.read(peer)) for value, peer in pairs]
    ratio = median(value / peer if figure.higher_is_better else peer / value for value, peer in numbers)
    value, peer = (figure.shown.format(median(side)) for side in zip(*numbers, strict=True))
    return Row(title, value, peer, f"{ratio:.2f}x", *((">= 1x", ratio >= 1.0) if bar else ()))


def _creation(trellis: Sequence[Turn], upstream: Sequence[Turn]) -> Row:
    value, peer = (median(turn.creation.measure_added_latency for turn in side) for side in (trellis, upstream))
    without = median(turn.creation.without for turn in (*trellis, *upstream))
    title = f"added to a pod's creation of {in_ms(without)}"
    return Row(title, in_ms(value), in_ms(peer), f"{peer / value:.2f}x", f"<= {in_ms(MOST_ADDED)}", value <= MOST_ADDED)


def _check_alike(trellis: Sequence[Set], upstream: Sequence[Set]) -> None:
    for set_by_trellis, set_by_upstream in zip(trellis, upstream, strict=True):
        if set_by_trellis != set_by_upstream:
            raise CannotMeasure(f"a pod gets {set_by_trellis} of ours and {set_by_upstream} of upstream's")


@contextmanager
def _populated() -> Iterator[tuple[Cluster, Path]]:
    """An API server that knows all of it. There are no controllers."""
    started = time.monotonic()
    with scratch() as directory, ControlPlane(directory, BARE, definitions=list_definitions()) as plane:
        api = plane.cluster.api

        def create(document: Json) -> None:
            api.create(document)
            if document["kind"] == "VerticalPodAutoscaler":
                api.patch(f"{api.get_path(document)}/status", {"status": document["status"]})

        document = list(objects(SIZE))
        first = [one for one in document if one["kind"] == "Namespace"]
        run_concurrently(create, first)
        run_concurrently(create, document[len(first) :])
        prepare(plane.cluster, SIZE)
        _report(f"{SIZE}: created after {time.monotonic() - started:.0f} s")
        yield plane.cluster, directory


def _upstream_side(cluster: Cluster) -> Side:
    return Side(
        "upstream", (upstream_accounts.ADMISSION.path(),), upstream_accounts.ADMISSION.kubeconfig(cluster), QUIET
    )


def _trellis_side(cluster: Cluster) -> Side:
    command = (sys.executable, "-m", "trellis", "admission-controller")
    return Side("ours", command, shipped_accounts.create_account(cluster, "admission"))


def _run_turn(ground: Testbed, side: Side, name: str) -> Turn:
    """One turn, from its start to its end."""
    [port] = reserve_ports(1)
    certificate, key = ground.authority.issue_server("webhook", "127.0.0.1").save(ground.directory, name)
    authority = ground.authority.pair.certificate
    (ground.directory / f"{name}.ca").write_bytes(authority)
    taskset = shutil.which("taskset") or "/usr/bin/taskset"
    command = (taskset, "-c", str(ground.cores[0]), *side.command)
    flags = [
        *(f"--port={port}", f"--tls-cert-file={certificate}", f"--tls-private-key={key}"),
        *(f"--client-ca-file={ground.directory / f'{name}.ca'}", "--register-webhook=false"),
        *side.flags,
    ]
    sample = ground.bodies[ALIKE][:: SIZE.vpas // SAMPLE]
    with run_controller(command, side.kubeconfig, ground.directory / f"{name}.log", flags) as controller:
        sets = until(f"{side.name} to size all pods", lambda: _all_sized(controller, port, sample), 60.0)
        loads = _loads(ground, side, controller.process.pid, port)
        resident = resident_megabytes(controller.process.pid)
        creation = measure_added_latency(ground.cluster, SIZE, port, authority, PAIRS)
    turn = Turn(sets, loads, resident, creation)
    _report(f"{name}: {', '.join(f'{load.load.rate:,.0f}/s' for load in loads.values())}, {resident:.0f} MB")
    return turn


def _loads(ground: Testbed, side: Side, pid: int, port: int) -> dict[tuple[str, int], LoadMeasurement]:
    result = {}
    for what, bodies in ground.bodies.items():
        for concurrency in CONCURRENCIES:
            before = cpu_seconds(pid)
            measured = load(port, bodies, concurrency, SECONDS, ground.cores[1])
            result[what, concurrency] = LoadMeasurement(measured, (cpu_seconds(pid) - before) / measured.answered)
            if missed := measured.reviews - measured.patched:
                raise CannotMeasure(f"{missed} of {measured.reviews} pods were not sized by {side.name}")
    return result


def _all_sized(controller: Controller, port: int, sample: Sequence[bytes]) -> list[Set] | None:
    """What is set in each, once both listen and know everything."""
    controller.process.check()
    try:
        sets = read_responses(port, sample)
    except OSError:
        return None
    return sets if all(sets) else None


def _report(message: str) -> None:
    """Print progress at once."""
    print(f"admission_side_by_side: {message}", file=sys.stderr, flush=True)


def read_responses(port: int, bodies: Sequence[bytes]) -> list[Set]:
    """What is set of resources in each answer; nothing if the pod stays as it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10.0)) as connection:
        return [_read_response(connection, body) for body in bodies]


def _read_response(connection: http.client.HTTPSConnection, body: bytes) -> Set:
    connection.request("POST", "/", body, {"Content-Type": "application/json"})
    response = json.loads(connection.getresponse().read())
    patch = json.loads(b64decode(response["response"].get("patch") or b"W10="))
    resources = (op for op in patch if "/resources/" in op["path"] and isinstance(op["value"], str))
    return {op["path"]: Quantity.parse(op["value"]) for op in resources}
