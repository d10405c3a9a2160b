"""What kubelet reports of the containers on a real node, read through the API server as a monitoring system may."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from testbed.client import Json
from testbed.cluster import Cluster

_SAMPLE: Final = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+) (?P<milliseconds>\d+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(msgspec.Struct, frozen=True):
    """A value of cAdvisor, and the moment in seconds at which it was read from the kernel."""

    value: float
    time: float


def read_cadvisor(cluster: Cluster, node: str, pod: Json, container: str) -> dict[str, Sample]:
    """The metrics of one container in `/metrics/cadvisor`, those without further labels."""
    text: str = cluster.api.get(f"/api/v1/nodes/{node}/proxy/metrics/cadvisor")["message"]
    wanted = {
        "namespace": pod["metadata"]["namespace"],
        "pod": pod["metadata"]["name"],
        "container": container,
    }
    samples = {}
    for line in filter(None, map(_SAMPLE.fullmatch, text.splitlines())):
        labels = dict(_LABEL.findall(line["labels"]))
        if wanted.items() <= labels.items():
            samples[line["name"]] = Sample(float(line["value"]), int(line["milliseconds"]) / 1000)
    return samples
