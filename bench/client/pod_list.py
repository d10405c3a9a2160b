"""10,000 pods from one response body: ours against the official Python client, in time and memory.

Each side runs in a child that has only the bytes and its own imports before the measurement starts, and
whose memory is how far the peak of its resident set rises from there. The peer gets the bytes the way it
gets them from the network, and decodes them once, because that takes it some ten seconds; ours is the best
of seven in time, the first in memory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.client.generated_pods import pod_list
from bench.measurement import CannotMeasure, Row, at_least, in_ms, python

PODS = 10_000
FASTER = 35
SMALLER = 10


class Taken(msgspec.Struct, frozen=True):
    """What one child took."""

    seconds: float
    megabytes: float


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        body = Path(directory) / "pods.json"
        body.write_bytes(pod_list(PODS))
        ours = msgspec.json.decode(python("-m", __name__, "ours", str(body)), type=Taken)
        peer = msgspec.json.decode(python("-m", __name__, "peer", str(body)), type=Taken)
    return [
        at_least(
            f"decode {PODS:,} pods: time",
            in_ms(ours.seconds),
            in_ms(peer.seconds),
            peer.seconds / ours.seconds,
            FASTER,
        ),
        at_least(
            f"decode {PODS:,} pods: memory",
            f"{ours.megabytes:.0f} MB",
            f"{peer.megabytes:.0f} MB",
            peer.megabytes / ours.megabytes,
            SMALLER,
        ),
    ]


def _take(decode: Callable[[bytes], Sequence[Any]], data: bytes, rounds: int) -> Taken:
    # One pod first: what either side imports or compiles on first use is not what is measured.
    _seconds(decode, pod_list(1), expected=1)
    before = peak_megabytes()
    best = _seconds(decode, data, PODS)
    grown = peak_megabytes() - before
    for _ in range(rounds - 1):
        best = min(best, _seconds(decode, data, PODS))
    return Taken(best, grown)


def _seconds(decode: Callable[[bytes], Sequence[Any]], data: bytes, expected: int) -> float:
    start = time.perf_counter()
    pods = decode(data)
    seconds = time.perf_counter() - start
    if len(pods) != expected:
        raise CannotMeasure(f"{len(pods)} pods decoded, not {expected}")
    return seconds


def peak_megabytes() -> float:
    # Not ru_maxrss: a child inherits that from the process that started it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _ours(data: bytes) -> Taken:
    from trellis.api.kube.decoder import decode_list  # noqa: PLC0415
    from trellis.api.kube.pods import Pod  # noqa: PLC0415

    return _take(lambda body: decode_list(body, Pod).items, data, rounds=7)


class _Response:
    """What urllib3 hands to the client after a request."""

    status = 200
    reason = "OK"
    headers: dict[str, str] = {"content-type": "application/json"}

    def __init__(self, data: bytes) -> None:
        self.data = data


def _peer(data: bytes) -> Taken:
    # By name, because the client is installed for measuring alone and the types must check without it.
    kubernetes: Any = import_module("kubernetes.client")
    rest: Any = import_module("kubernetes.client.rest")
    client = kubernetes.ApiClient()

    def decode(body: bytes) -> Sequence[Any]:
        response = rest.RESTResponse(_Response(body))
        response.read()
        pods: Sequence[Any] = client.response_deserialize(response, {"200": "V1PodList"}).data.items
        return pods

    return _take(decode, data, rounds=1)


if __name__ == "__main__":
    side = {"ours": _ours, "peer": _peer}[sys.argv[1]]
    print(msgspec.json.encode(side(Path(sys.argv[2]).read_bytes())).decode())
