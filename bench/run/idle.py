"""Compares upstream's three processes with ours, in turn, on the same small cluster: 100 VPAs, 300 pods, 10 nodes.

Ours is one process with all six components. Usage moves as in life, so that each has its pass a minute to do; else
nothing happens. Both elect leaders, as installations with two replicas do. Else both have defaults but for where
certificates lie, and the administrator's rights, so that one account does for six components. Memory is what the kernel
counts as resident, pages of files included, as a container's limit counts them; CPU is that of some minutes after the
first recommendations.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from bench.measurement import CannotMeasure, Row
from bench.process_usage import cpu_seconds, peak_megabytes, proportional_megabytes, resident_megabytes
from bench.recommender.cluster import Size, count_recommended, populated, rewind, wait_for, wait_for_usage
from testbed.access import upstream_accounts
from testbed.access.certificates import Authority
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError
from testbed.processes import reserve_ports

# Until what starts is done, and then the minutes that are measured.
SETTLING_SECONDS = 75.0
MINUTES = 3.0

# What upstream's three used where this was first measured.
MEGABYTES = 126 * 2**20 / 1e6
CPU_SECONDS = 0.180


class SmallSize(Size, frozen=True):
    """Few pods on several nodes."""

    @property
    def nodes(self) -> int:
        return 10


SIZE = SmallSize(100, 300)


class Usage(msgspec.Struct, frozen=True):
    """What one side uses: megabytes resident at the end, its share of shared pages, the most; CPU a minute."""

    resident: float
    proportional: float
    peak: float
    cpu: float

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.resident + other.resident,
            self.proportional + other.proportional,
            self.peak + other.peak,
            self.cpu + other.cpu,
        )


def measure() -> list[Row]:
    """Both sides on one cluster."""
    try:
        with populated(SIZE, report) as (cluster, directory):
            upstream = measure_side("upstream", cluster, upstream_processes(directory), directory)
            trellis = measure_side("ours", cluster, trellis_processes(directory), directory)
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    return rows(upstream, trellis)


def measure_ours(components: Sequence[str]) -> dict[str, Usage]:
    """Ours alone, with these sets of components, one after the other."""
    with populated(SIZE, report) as (cluster, directory):
        return {
            chosen: measure_side("ours", cluster, trellis_processes(directory, chosen), directory)
            for chosen in components
        }


def rows(upstream: Usage, trellis: Usage) -> list[Row]:
    """Ours against upstream's."""
    title = f"{SIZE}, {SIZE.nodes} nodes, idle: six components in one process"
    return [
        _row(f"{title}: memory", trellis.resident, upstream.resident, "MB", MEGABYTES),
        _row("  share of shared pages included", trellis.proportional, upstream.proportional, "MB"),
        _row("  at most", trellis.peak, upstream.peak, "MB"),
        _row("  CPU a minute", trellis.cpu * 1000, upstream.cpu * 1000, "ms", CPU_SECONDS * 1000),
    ]


def _row(title: str, value: float, peer: float, unit: str, bar: float | None = None) -> Row:
    texts = (title, f"{value:.0f} {unit}", f"{peer:.0f} {unit}", f"{peer / value:.1f}x" if value else "-")
    return Row(*texts) if bar is None else Row(*texts, f"<= {bar:.0f} {unit}", value <= bar)


Processes = list[tuple[str, list[str | Path], list[str]]]  # name, command, flags


def upstream_processes(directory: Path) -> Processes:
    certificate, key, authority = _certificates(directory)
    [port] = reserve_ports(1)
    webhook = [
        *(f"--port={port}", f"--tls-cert-file={certificate}", f"--tls-private-key={key}"),
        *(f"--client-ca-file={authority}", "--register-webhook=false"),
    ]
    return [
        ("upstream-recommender", [upstream_accounts.RECOMMENDER.path()], ["--leader-elect=true"]),
        ("upstream-updater", [upstream_accounts.UPDATER.path()], ["--leader-elect=true"]),
        ("upstream-admission", [upstream_accounts.ADMISSION.path()], webhook),
    ]


def trellis_processes(directory: Path, components: str = "all") -> Processes:
    certificate, key, authority = _certificates(directory)
    [port] = reserve_ports(1)
    flags = [f"--components={components}"]
    if "admission" in components or components in {"all", "drop-in"}:
        flags += [
            *(f"--admission.port={port}", f"--admission.tls-cert-file={certificate}"),
            *(f"--admission.tls-private-key={key}", f"--admission.client-ca-file={authority}"),
            "--no-admission.register-webhook",
        ]
    return [("trellis", [sys.executable, "-m", "trellis", "run"], flags)]


def measure_side(name: str, cluster: Cluster, processes: Processes, directory: Path) -> Usage:
    """Run its processes until what starts is done, and some minutes more."""
    rewind(cluster, SIZE)
    wait_for_usage(cluster, SIZE)
    with _running(cluster, processes, directory) as controllers:

        def all_recommended() -> bool:
            for controller in controllers:
                controller.process.check()
            return count_recommended(cluster) == SIZE.vpas

        if any("recommender" in process or "trellis" in process for process, _, _ in processes):
            wait_for("a recommendation for every VPA", all_recommended, 300.0)
        time.sleep(SETTLING_SECONDS)
        before = [cpu_seconds(controller.process.pid) for controller in controllers]
        time.sleep(60.0 * MINUTES)
        total = Usage(0.0, 0.0, 0.0, 0.0)
        for controller, earlier, (process, _, _) in zip(controllers, before, processes, strict=True):
            pid = controller.process.pid
            cpu = (cpu_seconds(pid) - earlier) / MINUTES
            usage = Usage(resident_megabytes(pid), proportional_megabytes(pid), peak_megabytes(pid), cpu)
            report(f"{process}: {msgspec.json.encode(usage).decode()}")
            total += usage
    report(f"{name}: {msgspec.json.encode(total).decode()}")
    return total


@contextmanager
def _running(cluster: Cluster, processes: Processes, directory: Path) -> Iterator[list[Controller]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(run_controller(command, cluster.kubeconfig, directory / f"{name}.log", flags))
            for name, command, flags in processes
        ]


def _certificates(directory: Path) -> tuple[Path, Path, Path]:
    """Of a webhook: certificate, key and authority."""
    authority = Authority.new("bench")
    certificate, key = authority.issue_server("webhook", "127.0.0.1").save(directory, "webhook")
    file = directory / "webhook.ca"
    file.write_bytes(authority.pair.certificate)
    return certificate, key, file


def report(message: str) -> None:
    """Print progress at once."""
    print(f"run_idle: {message}", file=sys.stderr, flush=True)
