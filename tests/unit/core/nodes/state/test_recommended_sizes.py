"""Sizes follow pods, VPAs, LimitRanges and workloads, each change on its own, and cost nothing without VPAs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from support.worlds.nodes import a_node, a_pod
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.workloads import ReplicaSet
from trellis.core.boost.annotation import annotation_key
from trellis.core.cluster.store import key_of
from trellis.core.nodes.state.recommended_sizes import GovernorKey, RecommendedSize, RecommendedSizes, SizingSources
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.sizing.governors import Governor, compile_vpa_governor

MIB = 2**20


class World:
    """A node with pods of ReplicaSets, VPAs, and the sizes that follow from them."""

    def __init__(self, max_pods: int = 100, max_computed: int = 100) -> None:
        self.snapshot = ClusterSnapshot()
        self.snapshot.put_node("n1", a_node("n1", "16"))
        self.sizes = RecommendedSizes(max_pods, max_computed)
        self.governors: dict[GovernorKey, Governor] = {}
        self.workloads: dict[tuple[str, str], ReplicaSet] = {}
        self.ranges: tuple[LimitRange, ...] = ()
        self.listed = 0

    def add_workload(self, name: str = "web") -> None:
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
        }
        self.workloads["default", name] = convert_object(document, ReplicaSet)

    def put(self, name: str, cpu: str = "1", owner: str = "web", **annotations: str) -> Pod:
        pod = a_pod(name, cpu, owner=("ReplicaSet", owner), labels={"app": owner}, nodeName="n1")
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        pod = msgspec.structs.replace(pod, metadata=metadata)
        self.snapshot.put_pod(key_of(pod), pod)
        self.sizes.note_changes({key_of(pod): pod})
        return pod

    def delete(self, name: str) -> None:
        self.snapshot.put_pod(("default", name), None)
        self.sizes.note_changes({("default", name): None})

    def recommend(self, cpu: str, mode: str = "InPlaceOrRecreate", owner: str = "web", **spec: Any) -> None:
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner}
        recommended = {"containerName": "app", "target": {"cpu": cpu}}
        document = {
            "metadata": {"name": owner, "namespace": "default"},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": mode}, **spec},
            "status": {"recommendation": {"containerRecommendations": [recommended]}},
        }
        governor = compile_vpa_governor(convert_object(document, VerticalPodAutoscaler))
        assert governor is not None
        self.governors["VerticalPodAutoscaler", "default", owner] = governor

    def _list(self) -> Iterable[tuple[GovernorKey, Governor]]:
        self.listed += 1
        return tuple(self.governors.items())

    def update(self) -> dict[str, RecommendedSize | None]:
        """The changes of sizes, by the names of pods."""
        sources = SizingSources(
            self._list, {"ReplicaSet": lambda namespace, name: self.workloads.get((namespace, name))}, self._ranges
        )
        return {key[1]: size for key, size in self.sizes.find_changes(self.snapshot.placed, sources).items()}

    def _ranges(self, _namespace: str) -> tuple[LimitRange, ...]:
        return self.ranges


def a_world(pods: int = 2, cpu: str = "2", **spec: Any) -> World:
    world = World()
    world.add_workload()
    world.recommend(cpu, **spec)
    for number in range(pods):
        world.put(f"p{number}")
    return world


def size(cpu: int, *, updated: bool = True, evictable: bool = True) -> RecommendedSize:
    requests = {"app": {"cpu": cpu}}
    return RecommendedSize(requests, requests if updated else {}, evictable)


def test_the_pods_of_a_vpa_get_its_target_once() -> None:
    world = a_world()
    assert world.update() == {"p0": size(2000), "p1": size(2000)}
    assert world.update() == {}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("Recreate", size(2000)),
        ("Auto", size(2000)),
        ("InPlaceOrRecreate", size(2000)),
        ("InPlace", size(2000, evictable=False)),
        ("Initial", size(2000, updated=False, evictable=False)),
    ],
)
def test_the_mode_says_whether_the_pod_is_updated_and_evicted(mode: str, expected: RecommendedSize) -> None:
    assert a_world(mode=mode).update()["p0"] == expected


def test_only_the_pods_of_a_vpa_that_changed_are_computed_again() -> None:
    world = a_world()
    world.add_workload("db")
    world.recommend("3", owner="db")
    world.put("d0", owner="db")
    world.update()
    world.recommend("4", owner="db")
    assert world.update() == {"d0": size(4000, evictable=False)}


def test_a_deleted_vpa_takes_its_sizes_with_it() -> None:
    world = a_world()
    world.update()
    world.governors.clear()
    assert world.update() == {"p0": None, "p1": None}
    world.recommend("3")
    assert world.update() == {"p0": size(3000), "p1": size(3000)}


def test_a_pod_is_evicted_only_if_enough_replicas_live() -> None:
    world = a_world(pods=1)
    assert world.update() == {"p0": size(2000, evictable=False)}
    world.put("p1")
    assert world.update() == {"p0": size(2000), "p1": size(2000)}
    world.delete("p1")
    assert world.update() == {"p0": size(2000, evictable=False)}
    world.recommend("2", updatePolicy={"updateMode": "Recreate", "minReplicas": 1})
    assert world.update() == {"p0": size(2000)}


def test_a_changed_limit_range_bounds_the_size() -> None:
    world = a_world()
    world.update()
    limits = [{"type": "Container", "min": {"cpu": "3"}}]
    document = {"metadata": {"name": "least", "namespace": "default"}, "spec": {"limits": limits}}
    world.ranges = (convert_object(document, LimitRange),)
    assert world.update() == {"p0": size(3000), "p1": size(3000)}


def test_a_workload_that_appears_after_its_pods_is_found() -> None:
    world = a_world()
    workloads, world.workloads = world.workloads, {}
    assert world.update() == {}
    world.workloads = workloads
    assert world.update() == {"p0": size(2000), "p1": size(2000)}


def test_pods_that_the_target_does_not_select_have_no_size() -> None:
    world = a_world()
    pod = a_pod("stray", owner=("ReplicaSet", "web"), labels={"app": "other"}, nodeName="n1")
    world.snapshot.put_pod(key_of(pod), pod)
    world.sizes.note_changes({key_of(pod): pod})
    assert set(world.update()) == {"p0", "p1"}


def test_a_replacement_starts_with_its_boost_and_the_pod_is_updated_without_it() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    world = a_world(startupBoost=boost)
    expected = RecommendedSize({"app": {"cpu": 6000}}, {"app": {"cpu": 2000}}, is_evictable=True)
    assert world.update()["p0"] == expected


def test_a_boosted_pod_counts_with_what_it_had_before() -> None:
    world = a_world(pods=0, mode="Off", startupBoost={"cpu": {"type": "Factor", "factor": 3}})
    before = '{"requests":{"cpu":"500m"}}'
    world.put("p0", "1500m", **{annotation_key("app"): before})
    assert world.update() == {"p0": RecommendedSize({"app": {"cpu": 1500}})}


@pytest.mark.parametrize("bounds", [{"max_computed": 2}, {"max_pods": 2}])
def test_thousands_of_changes_are_computed_over_several_passes(bounds: dict[str, int]) -> None:
    world = World(**bounds)
    for number in range(5):
        world.add_workload(f"w{number}")
        world.recommend("2", owner=f"w{number}")
        world.put(f"p{number}", owner=f"w{number}")
    assert [len(world.update()) for _ in range(4)] == [2, 2, 1, 0]


def test_without_vpas_no_pod_is_looked_at() -> None:
    world = World()
    world.put("p0")

    class Unread(dict[Any, Any]):
        def __getitem__(self, key: object) -> Any:
            raise AssertionError(key)

        def __iter__(self) -> Any:
            raise AssertionError("all pods")

    assert world.sizes.find_changes(Unread(), SizingSources()) == {}


def test_growth_is_counted_on_the_node_of_the_pod_and_ends_with_it() -> None:
    world = a_world()
    growth = world.snapshot.growth

    def apply() -> int:
        for name, found in world.update().items():
            world.snapshot.put_recommended_size(("default", name), found)
        return int(growth.added.amounts[world.snapshot.table.resources["cpu"], 0])

    assert (apply(), len(growth)) == (2000, 2)
    # One pod has been resized by half of what is recommended.
    world.put("p0", "1500m")
    assert (apply(), len(growth)) == (1500, 2)
    world.delete("p0")
    assert (apply(), len(growth)) == (1000, 1)
    world.snapshot.put_node("n1", None)
    world.snapshot.put_node("n2", a_node("n2"))
    assert (apply(), len(growth)) == (0, 0)
