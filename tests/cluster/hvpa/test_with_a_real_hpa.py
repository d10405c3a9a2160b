"""Hvpas, the HPA controller of Kubernetes and the updater, with usage as stories script it, all side by side.

Each story ends with what must stay as it is: for twenty seconds, or for as long as HVPA_HELD_SECONDS says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.builders.manifests import STORY_2
from support.cluster.hvpa_stories import Scene, Story, holds, play, reaches
from support.cluster.hvpas import Start, advise, hpa_path, hvpa, hvpa_controllers, workload
from support.cluster.updaters import NO_LEASE, updaters
from support.cluster.vpas import vpa_path
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.kwok.nodes import Node, Taint

HELD_SECONDS = float(os.environ.get("HVPA_HELD_SECONDS", "20"))
SETTLE_SECONDS = 600.0
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
AT_ONCE = {"stabilizationWindow": "0s"}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with updaters(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def node(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A node for these stories alone: together they ask for more than is left beside other tests."""
    cluster.add_nodes(Node(name=namespace, cpu="256", memory="1Ti", taints=(Taint(namespace),)))
    yield namespace
    cluster.remove_nodes(namespace)


def story_1(scene: Scene, kind: str, name: str) -> Story:
    """Two of six at 152 % of a target of 80 %: the HPA wishes four, which are 24 cores, and three hold them."""
    used = {ask.USAGE_CPU: "9120m", ask.USAGE_MEMORY: "1G"}
    scene.api.create(workload(kind, "6", "2G", 2, used, name=name, node=scene.namespace), scene.namespace)
    template = {"spec": {"maxReplicas": 16, "metrics": [METRIC]}}
    made = hvpa(name, kind=kind, hpa={"template": template}, vpa={"deploy": True})
    yield from reaches("two replicas", lambda: scene.shape(kind, name) == (2, {6000}) and scene.all_ready(name))
    scene.api.create(made, scene.namespace)

    def three_of_eight() -> bool:
        scene.share(name, 18_240)
        return scene.shape(kind, name) == (3, {8000}) and scene.all_ready(name)

    yield from reaches("three of eight", three_of_eight)
    # What a VPA says of two replicas stays for long, and three of that would be more than anybody asked for.
    advise(scene.cluster, scene.namespace, 12_000, 24_000, name=name)
    yield from reaches("the count to be written back", lambda: scene.spec_replicas(name) == 3)
    yield from holds(lambda: (three_of_eight(), scene.written(kind, name)), HELD_SECONDS)
    assert three_of_eight()
    conditions = scene.api.get(hpa_path(scene.namespace, name))["status"]["conditions"]
    result = {condition["type"]: condition["status"] for condition in conditions}
    assert (result["AbleToScale"], result["ScalingActive"]) == ("True", "True")


def story_2(scene: Scene, kind: str, name: str) -> Story:
    """One replica grows to a core, four cores are two replicas; when the load is gone one small one is left."""
    used = {ask.USAGE_CPU: "760m", ask.USAGE_MEMORY: "1G"}
    scene.api.create(workload(kind, "500m", "1G", 1, used, name=name, node=scene.namespace), scene.namespace)
    template = {"spec": {"maxReplicas": 16, "metrics": [METRIC]}}
    down = {"stabilizationWindow": "15s"}
    made = hvpa(name, *STORY_2, kind=kind, hpa={"template": template}, vpa={"deploy": True}, scaleDown=down)
    scene.api.create(made, scene.namespace)
    counts: list[int] = []

    def is_at(load: int, count: int, least: int, most: int) -> bool:
        scene.share(name, load)
        replicas, sizes = scene.shape(kind, name)
        counts.append(replicas)
        return replicas == count and scene.all_ready(name) and all(least <= size <= most for size in sizes)

    yield from reaches("one larger replica", lambda: is_at(760, 1, 900, 1000))
    assert set(counts) <= {0, 1}
    # Measured while it rises, a load is less than it will be: the way there differs, and so do the last per cents.
    yield from reaches("two replicas", lambda: is_at(3040, 2, 1800, 2100))
    yield from holds(lambda: is_at(3040, 2, 1800, 2100), HELD_SECONDS)
    yield from reaches("one small replica", lambda: is_at(380, 1, 400, 600))


def noise(scene: Scene, kind: str, name: str) -> Story:
    """At 4 x 6.45 the HPA is content with 23.75 cores, which three hold; 13 % more are a wish of four, and still three.

    The HPA writes its wish before the status that says how much of a pod it stands for.
    """
    used = {ask.USAGE_CPU: "4750m", ask.USAGE_MEMORY: "1G"}
    scene.api.create(workload(kind, "6450m", "2G", 4, used, name=name, node=scene.namespace), scene.namespace)
    yield from reaches("four replicas", lambda: scene.shape(kind, name) == (4, {6450}) and scene.all_ready(name))
    template = {"spec": {"maxReplicas": 16, "metrics": [METRIC]}}
    down = {"stabilizationWindow": "15s"}
    scene.api.create(hvpa(name, kind=kind, hpa={"template": template}, scaleDown=down), scene.namespace)

    def is_at(load: int, count: int, least: int, most: int) -> bool:
        scene.share(name, load)
        replicas, sizes = scene.shape(kind, name)
        return replicas == count and scene.all_ready(name) and all(least <= size <= most for size in sizes)

    yield from reaches("three replicas", lambda: is_at(19_000, 3, 7600, 8300))
    yield from holds(lambda: is_at(19_000, 3, 7600, 8300), HELD_SECONDS)
    counts: set[int] = set()

    def grown() -> bool:
        counts.add(scene.shape(kind, name)[0])
        return is_at(21_500, 3, 8700, 9000)

    yield from reaches("three larger replicas", grown)
    yield from holds(grown, HELD_SECONDS)
    assert counts <= {0, 3}, "never a fourth"


def bounds(scene: Scene, name: str) -> Story:
    """A user's HPA with a minimum of ten writes ten, which nobody asked for."""
    used = {ask.USAGE_CPU: "2500m", ask.USAGE_MEMORY: "1G"}
    document = workload("Deployment", "3125m", "2G", 2, used, name=name, node=scene.namespace)
    scene.api.create(document, scene.namespace)
    scene.api.create(hvpa(name), scene.namespace)
    reference = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Hvpa", "name": name}
    spec = {"scaleTargetRef": reference, "minReplicas": 10, "maxReplicas": 20, "metrics": [METRIC]}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}}
    scene.api.create({**hpa, "spec": spec}, scene.namespace)
    yield from reaches("the bound", lambda: "HPABounds" in scene.conditions(name))
    assert scene.spec_replicas(name) == 10
    assert scene.shape("Deployment", name) == (2, {3125})
    yield from holds(lambda: (scene.shape("Deployment", name), scene.written("Deployment", name)), HELD_SECONDS)
    assert "HPABounds" in scene.conditions(name)


def order(scene: Scene, kind: str, name: str) -> Story:
    """A third replica comes before the two shrink, and two grow before the third goes, as often as it is asked for."""
    document = workload(kind, "6", "2G", 2, {ask.READY_AFTER: "3"}, name=name, node=scene.namespace)
    scene.api.create(document, scene.namespace)
    yield from reaches("two replicas", lambda: scene.shape(kind, name) == (2, {6000}) and scene.all_ready(name))
    scene.api.create(hvpa(name, kind=kind, vpa={"deploy": True}, scaleDown=AT_ONCE), scene.namespace)
    yield from reaches("a seed", lambda: scene.spec_replicas(name) == 2)
    yield from reaches("its VPA", lambda: scene.api.find(vpa_path(scene.namespace, name)) is not None)

    def becomes(total: int, count: int, size: int, least: int) -> Story:
        advise(scene.cluster, scene.namespace, total // count, total, name=name)

        def there() -> bool:
            assert scene.held(name) >= least
            return scene.shape(kind, name) == (count, {size}) and scene.all_ready(name)

        yield from reaches(f"{count} of {size}", there)

    yield from becomes(12_001, 3, 4001, least=12_000)
    end = time.monotonic() + HELD_SECONDS
    while time.monotonic() < end:
        yield from becomes(10_800, 2, 5400, least=10_800)
        yield from becomes(12_001, 3, 4001, least=10_800)


@pytest.mark.timeout(SETTLE_SECONDS + HELD_SECONDS + 300)
@pytest.mark.req("HV-13", "HV-18", "HV-19", "HV-38", "HV-41", "HV-45")
def test_every_story_comes_to_its_end_and_what_must_stay_stays(
    cluster: Cluster, namespace: str, node: str, controller: Start, updater: Start
) -> None:
    scene = Scene(cluster, node)
    stories = {"bounds": bounds(scene, "bounds")}
    for kind, short in {"Deployment": "dep", "StatefulSet": "set"}.items():
        stories |= {
            f"story-1-{short}": story_1(scene, kind, f"story-1-{short}"),
            f"story-2-{short}": story_2(scene, kind, f"story-2-{short}"),
            f"order-{short}": order(scene, kind, f"order-{short}"),
            f"noise-{short}": noise(scene, kind, f"noise-{short}"),
        }
    controller(namespace)
    updater(namespace, NO_LEASE)
    play(scene, stories, SETTLE_SECONDS + HELD_SECONDS)
