"""Chains of controllers: where they lead, and what stops them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trellis.api.kube.meta import KubeObject, ObjectMeta, OwnerReference
from trellis.api.kube.observed_workloads import ObservedWorkload, OwnedMeta
from trellis.base.reasons import Reason
from trellis.core.cluster.owners import OwnerChain, Owners, ScaleInfo, TargetRef, build_controller_ref
from trellis.core.cluster.target_problems import (
    TARGET_FORBIDDEN,
    TARGET_KIND_NOT_SERVED,
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_UNREACHABLE,
    build_target_problem,
)


def target(kind: str, name: str = "x", api_version: str = "v1") -> TargetRef:
    return TargetRef("shop", api_version, kind, name)


def controlled_by(kind: str, name: str = "x") -> OwnerReference:
    return OwnerReference("v1", kind, name, "", True)


class World:
    """Well-known objects and scales, by whom they are controlled."""

    def __init__(self, *links: tuple[str, str | None], **scales: ScaleInfo) -> None:
        self._links = dict(links)
        self.scales = {target(kind): answer for kind, answer in scales.items()}

    def owners(self) -> Owners:
        return Owners(
            {kind: self._lookup(kind) for kind in ("ReplicaSet", "Deployment", "Job", "CronJob")}, self.scales
        )

    def _lookup(self, kind: str) -> Callable[[str, str], ObservedWorkload | None]:
        def find(namespace: str, name: str) -> ObservedWorkload | None:
            if namespace != "shop" or kind not in self._links:
                return None
            parent = self._links[kind]
            others = OwnerReference("v1", "Fleet", "of-no-interest")
            references = (others, controlled_by(parent)) if parent else (others,)
            return ObservedWorkload(OwnedMeta(name, namespace, owner_references=references))

        return find

    def follow(self, kind: str) -> OwnerChain:
        return self.owners().follow(target(kind))


@pytest.mark.parametrize(("below", "above"), [("ReplicaSet", "Deployment"), ("Job", "CronJob")])
def test_a_chain_of_owners_ends_at_the_object_without_a_controller(below: str, above: str) -> None:
    world = World((below, above), (above, None))
    assert world.follow(below) == world.follow(above) == OwnerChain(target(above))


def test_an_object_read_whole_serves_as_well_as_one_read_in_part() -> None:
    whole = KubeObject(ObjectMeta(name="x", owner_references=(controlled_by("Deployment"),)))
    owners = Owners({"ReplicaSet": lambda *_: whole, "Deployment": lambda *_: KubeObject()}, {})
    assert owners.follow(target("ReplicaSet")).topmost == target("Deployment")


def test_a_scalable_kind_is_part_of_the_chain_and_may_be_its_end() -> None:
    world = World(("ReplicaSet", "Rollout"), Rollout=ScaleInfo("a=b"))
    assert world.follow("ReplicaSet").topmost == target("Rollout")
    world = World(("ReplicaSet", "Rollout"), Rollout=ScaleInfo("a=b", controlled_by("Fleet")), Fleet=ScaleInfo("a"))
    assert world.follow("ReplicaSet").topmost == target("Fleet")


@pytest.mark.parametrize("reason", [TARGET_NOT_SCALABLE, TARGET_NOT_FOUND, TARGET_KIND_NOT_SERVED])
def test_a_controller_that_cannot_be_a_target_ends_the_chain_below_itself(reason: Reason) -> None:
    world = World(("Deployment", "Fleet"), Fleet=ScaleInfo(problem=build_target_problem(reason, "no")))
    assert world.follow("Deployment") == OwnerChain(target("Deployment"))
    assert world.follow("Fleet") == OwnerChain()


@pytest.mark.parametrize("reason", [TARGET_FORBIDDEN, TARGET_UNREACHABLE])
def test_a_controller_of_which_nothing_could_be_read_leaves_the_chain_unknown(reason: Reason) -> None:
    problem = build_target_problem(reason, "no answer")
    world = World(("Deployment", "Fleet"), Fleet=ScaleInfo(problem=problem))
    assert world.follow("Deployment") == OwnerChain(problem=problem.message)


def test_a_missing_controller_leaves_the_chain_unknown_and_is_named() -> None:
    world = World(("ReplicaSet", "Deployment"))
    assert world.follow("ReplicaSet") == OwnerChain(problem="Deployment shop/x does not exist")


def test_a_cycle_is_found_however_long() -> None:
    world = World(("ReplicaSet", "Deployment"), ("Deployment", "Job"), ("Job", "ReplicaSet"), ("CronJob", "CronJob"))
    cycle = OwnerChain(problem="cycle detected in ownership chain")
    assert [world.follow(kind) for kind in ("ReplicaSet", "Deployment", "Job", "CronJob")] == [cycle] * 4


def test_a_node_owns_nothing() -> None:
    world = World(("Job", "Node"))
    assert world.follow("Node") == OwnerChain()
    assert world.follow("Job") == OwnerChain(target("Job"))


def test_scales_on_the_way_up_are_asked_for_one_after_the_other() -> None:
    world = World(("ReplicaSet", "Rollout"), ("Deployment", None))
    starts = [target("ReplicaSet"), target("Deployment"), target("Rollout")]
    assert world.owners().find_unread_scales(starts) == {target("Rollout")}
    world.scales[target("Rollout")] = ScaleInfo("a=b", controlled_by("Fleet"))
    assert world.owners().find_unread_scales(starts) == {target("Fleet")}
    world.scales[target("Fleet")] = ScaleInfo("a=b")
    assert world.owners().find_unread_scales(starts) == frozenset()


@pytest.mark.parametrize("api_version", ["", "v1", "apps/v1", "apps/v1beta1", "extensions/v1beta1", "nonsense"])
def test_a_well_known_kind_is_known_under_any_group_that_could_be_kubernetes_own(api_version: str) -> None:
    owners = World(("Deployment", None)).owners()
    meant = target("Deployment", api_version=api_version)
    assert meant.is_well_known
    assert owners.find(meant) is not None
    assert not target("Rollout", api_version=api_version).is_well_known


def test_a_kind_of_another_group_that_is_called_alike_is_not_well_known() -> None:
    world = World(("Job", None))
    theirs = target("Job", api_version="batch.volcano.sh/v1alpha1")
    assert not theirs.is_well_known
    assert world.owners().find(theirs) is None
    assert world.owners().follow(theirs) == OwnerChain(unread_scale=theirs)
    world.scales[theirs] = ScaleInfo("a=b")
    assert world.owners().follow(theirs) == OwnerChain(theirs)


def test_a_controller_of_another_group_may_be_called_like_what_it_controls() -> None:
    theirs = target("Deployment", api_version="example.com/v1")
    reference = OwnerReference(theirs.api_version, theirs.kind, theirs.name, "", True)
    below = ObservedWorkload(OwnedMeta("x", "shop", owner_references=(reference,)))
    owners = Owners({"Deployment": lambda *_: below}, {theirs: ScaleInfo("a=b")})
    assert owners.follow(target("Deployment", api_version="apps/v1")) == OwnerChain(theirs)


def test_one_object_is_the_same_under_any_version_of_its_kind() -> None:
    assert target("Deployment", api_version="apps/v1").is_same(target("Deployment", api_version="extensions/v1beta1"))
    assert not target("Deployment", "a").is_same(target("Deployment", "b"))
    assert str(target("Deployment", "web", "apps/v1")) == "apps/v1.Deployment/web"
    assert build_controller_ref("shop", None) is None
