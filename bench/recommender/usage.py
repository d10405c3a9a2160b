"""The usage of the containers of many VPAs, as metrics-server reports it, drawn from numbers alone.

Usage goes up and down with the day, differs from pod to pod, and trembles from minute to minute. All pods of one VPA
after the other are replaced by others, as a new version of everything is rolled out every `LIFETIME` minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import numpy as np
import numpy.typing as npt

START = 1_790_000_000  # seconds since the epoch: a day in September 2026
MINUTE = 60
DAY = 86_400

LIFETIME = 20  # minutes of a pod, so that 5 % of them are replaced in each
VPAS_OF_A_NAMESPACE = 50
CONTAINERS = ("app", "proxy", "logs", "cache", "metrics")

_CORES = (0.02, 2.0)
_BYTES = (3e7, 1.5e9)
_DAILY, _PODS, _TREMBLING = 0.3, 0.2, 0.1  # shares by which usage differs


class Size(msgspec.Struct, frozen=True):
    """So many VPAs, each with so many pods of so many containers."""

    vpas: int
    pods: int
    containers: int

    @property
    def all_pods(self) -> int:
        return self.vpas * self.pods

    @property
    def all_containers(self) -> int:
        return self.all_pods * self.containers

    @property
    def names(self) -> tuple[str, ...]:
        """Of the containers of a pod."""
        return CONTAINERS[: self.containers]

    def replaced(self, minute: int) -> range:
        """The pods that are replaced in that minute."""
        begin = minute % LIFETIME * self._replaced_per_minute
        return range(begin, min(begin + self._replaced_per_minute, self.all_pods))

    def pod_name(self, pod: int, minute: int) -> str:
        """What a pod is called then."""
        vpa, place = divmod(pod, self.pods)
        generation = (minute + -(pod // self._replaced_per_minute) % LIFETIME) // LIFETIME
        return f"web-{vpa}-5d{vpa:07x}-{place}{generation:04d}"

    @property
    def _replaced_per_minute(self) -> int:
        return -(-self.all_pods // LIFETIME)

    def usual(self) -> npt.NDArray[np.float64]:
        """Cores and bytes that the containers of each VPA use on average, (resource, VPA, container)."""
        draws = np.random.default_rng(7).uniform(size=(2, self.vpas, self.containers))
        low, high = (np.log(amounts)[:, None, None] for amounts in np.array([_CORES, _BYTES]).T)
        usual: npt.NDArray[np.float64] = np.exp(low + draws * (high - low))
        return usual


class Usage:
    """What metrics-server says, minute by minute."""

    def __init__(self, size: Size) -> None:
        self._size = size
        draw = np.random.default_rng(8)
        differences = 1 + _PODS * draw.uniform(-1, 1, size=(2, size.vpas, size.pods, size.containers))
        self._usual = (size.usual()[:, :, None, :] * differences).reshape(2, size.all_pods, size.containers)
        self._phases = np.repeat(draw.uniform(size=size.vpas), size.pods)[:, None]
        self._heads = [self._head(pod, 0) for pod in range(size.all_pods)]

    def replace(self, minute: int) -> None:
        """Let the pods be replaced whose turn it is."""
        for pod in self._size.replaced(minute):
            self._heads[pod] = self._head(pod, minute)

    def list_at(self, minute: int) -> bytes:
        """A PodMetricsList with all pods in it, each pod sampled once within the last minute."""
        now = START + minute * MINUTE
        wave = 1 + _DAILY * np.sin(2 * np.pi * (now / DAY + self._phases))
        trembling = np.random.default_rng(minute).uniform(1 - _TREMBLING, 1 + _TREMBLING, size=self._usual.shape)
        cpu, memory = self._usual * wave * trembling
        times = [_text(now - second) for second in range(MINUTE)]
        nanos, kibis = (cpu * 1e9).astype(np.int64).tolist(), (memory / 1024).astype(np.int64).tolist()
        names = self._size.names
        items = [
            f'{head}"timestamp":"{times[pod % MINUTE]}","window":"15.021s","containers":[{_containers(names, *used)}]}}'
            for pod, (head, *used) in enumerate(zip(self._heads, nanos, kibis, strict=True))
        ]
        kind = '"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{}'
        return f'{{{kind},"items":[{",".join(items)}]}}'.encode()

    def _head(self, pod: int, minute: int) -> str:
        vpa = pod // self._size.pods
        metadata = {
            "name": self._size.pod_name(pod, minute),
            "namespace": get_namespace(vpa),
            "creationTimestamp": _text(START + minute * MINUTE),
            "labels": build_labels(vpa),
        }
        return f'{{"metadata":{msgspec.json.encode(metadata).decode()},'


def get_namespace(vpa: int) -> str:
    """Where a VPA is."""
    return f"team-{vpa // VPAS_OF_A_NAMESPACE}"


def build_labels(vpa: int) -> dict[str, str]:
    """What its pods are labelled with."""
    return {
        "app.kubernetes.io/name": f"web-{vpa}",
        "app.kubernetes.io/version": f"1.{vpa % 40}.0",
        "pod-template-hash": f"5d{vpa:07x}",
    }


def _containers(names: tuple[str, ...], nanos: list[int], kibis: list[int]) -> str:
    used = zip(names, nanos, kibis, strict=True)
    return ",".join(
        f'{{"name":"{name}","usage":{{"cpu":"{cpu}n","memory":"{memory}Ki"}}}}' for name, cpu, memory in used
    )


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
