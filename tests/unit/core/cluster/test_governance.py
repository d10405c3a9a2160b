"""Which autoscaler governs a pod: against an oracle that walks pods times claims, and case by case."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.meta import OwnerReference
from trellis.api.kube.observed_pods import ObservedPod, ObservedPodMeta
from trellis.api.kube.observed_workloads import ObservedWorkload, OwnedMeta
from trellis.base.selectors import Selector, parse_selector
from trellis.core.cluster.governance import Governance, TargetClaim, assign_governors, find_governor
from trellis.core.cluster.owners import Owners, ScaleInfo, TargetRef, build_controller_ref
from trellis.core.cluster.target_problems import TARGET_NOT_SCALABLE, build_target_problem

NAMESPACE = "shop"
NAN = math.nan


def ref(kind: str, name: str) -> OwnerReference:
    return OwnerReference("apps/v1", kind, name, f"uid-{name}", True)


# Every controller there is, and who controls it.
PARENTS: dict[tuple[str, str], OwnerReference | None] = {
    ("Deployment", "web"): None,
    ("Deployment", "api"): None,
    ("ReplicaSet", "web-1"): ref("Deployment", "web"),
    ("ReplicaSet", "web-2"): ref("Deployment", "web"),
    ("ReplicaSet", "api-1"): ref("Deployment", "api"),
    ("ReplicaSet", "alone"): None,
    ("StatefulSet", "db"): ref("Database", "db"),
    ("StatefulSet", "queue"): ref("Operator", "queue"),
}
SCALES = {
    TargetRef(NAMESPACE, "apps/v1", "Database", "db"): ScaleInfo("app=db"),
    TargetRef(NAMESPACE, "apps/v1", "Operator", "queue"): ScaleInfo(
        problem=build_target_problem(TARGET_NOT_SCALABLE, "no")
    ),
}
# What the chain from each direct controller of a pod leads to; None where nobody knows.
TOPMOST: dict[tuple[str, str], tuple[str, str] | None] = {
    ("ReplicaSet", "web-1"): ("Deployment", "web"),
    ("ReplicaSet", "web-2"): ("Deployment", "web"),
    ("ReplicaSet", "api-1"): ("Deployment", "api"),
    ("ReplicaSet", "alone"): ("ReplicaSet", "alone"),
    ("ReplicaSet", "deleted"): None,
    ("StatefulSet", "db"): ("Database", "db"),
    ("StatefulSet", "queue"): ("StatefulSet", "queue"),
    ("Operator", "queue"): None,
    ("Unheard", "of"): None,
    ("Node", "node-1"): None,
}


def known(kind: str, namespace: str, name: str) -> ObservedWorkload | None:
    if namespace != NAMESPACE or (kind, name) not in PARENTS:
        return None
    parent = PARENTS[kind, name]
    return ObservedWorkload(OwnedMeta(name, namespace, owner_references=(parent,) if parent else ()))


def owners() -> Owners:
    def lookup(kind: str):  # type: ignore[no-untyped-def]
        return lambda namespace, name: known(kind, namespace, name)

    return Owners({kind: lookup(kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet")}, SCALES)


def pod(name: str, labels: dict[str, str], controller: tuple[str, str] | None = None) -> ObservedPod:
    references = (ref(*controller),) if controller else ()
    return ObservedPod(ObservedPodMeta(name, NAMESPACE, f"uid-{name}", "1", references, labels=labels))


def claim(name: str, target: tuple[str, str], selector: str | Selector | None, created: float = 1.0) -> TargetClaim:
    parsed = parse_selector(selector) if isinstance(selector, str) else selector
    return TargetClaim(NAMESPACE, name, f"uid-{name}", created, TargetRef(NAMESPACE, "apps/v1", *target), parsed)


def decide(claims: list[TargetClaim], *pods: ObservedPod, owner_required: bool = False) -> Governance:
    return assign_governors(claims, pods, owners(), owner_required=owner_required)


WEB = ("Deployment", "web")


def test_a_pod_is_governed_through_the_owners_between_it_and_the_target() -> None:
    governance = decide(
        [claim("v", WEB, "app=web")],
        pod("a", {"app": "web"}, ("ReplicaSet", "web-1")),
        pod("b", {"app": "web", "canary": "yes"}, ("ReplicaSet", "web-2")),
        pod("other-labels", {"app": "api"}, ("ReplicaSet", "web-1")),
    )
    assert governance == Governance({"a": "v", "b": "v"}, {}, {"v": 2})


def test_the_labels_of_another_workload_may_overlap_without_its_pods_being_taken() -> None:
    governance = decide(
        [claim("v", WEB, "tier=front")],
        pod("a", {"tier": "front"}, ("ReplicaSet", "web-1")),
        pod("b", {"tier": "front"}, ("ReplicaSet", "api-1")),
    )
    assert governance.governor == {"a": "v"}


@pytest.mark.parametrize(
    "controller", [None, ("Node", "node-1"), ("Unheard", "of"), ("Operator", "queue"), ("ReplicaSet", "deleted")]
)
def test_where_the_topmost_owner_is_unknown_labels_decide_unless_certainty_is_required(
    controller: tuple[str, str] | None,
) -> None:
    loose = pod("a", {"app": "web"}, controller)
    claims = [claim("v", WEB, "app=web")]
    assert decide(claims, loose).governor == {"a": "v"}
    assert decide(claims, loose, owner_required=True).governor == {}


def test_a_selector_that_matches_everything_takes_only_what_its_target_owns() -> None:
    claims = [claim("v", WEB, Selector.everything())]
    governance = decide(claims, pod("a", {}, ("ReplicaSet", "web-1")), pod("bare", {}), pod("b", {}, ("Node", "n")))
    assert governance.governor == {"a": "v"}


def test_the_older_governs_and_the_younger_names_it() -> None:
    claims = [
        claim("young", WEB, "app=web", created=30),
        claim("of-unknown-age", WEB, "app=web", created=NAN),
        claim("b-old", WEB, "app=web,track=stable", created=10),
        claim("a-old", WEB, "app=web,track=canary", created=10),
    ]
    governance = decide(
        claims,
        pod("a", {"app": "web", "track": "stable"}, ("ReplicaSet", "web-1")),
        pod("b", {"app": "web", "track": "canary"}, ("ReplicaSet", "web-2")),
        pod("c", {"app": "web"}, ("ReplicaSet", "web-2")),
    )
    assert governance.governor == {"a": "b-old", "b": "a-old", "c": "young"}
    assert governance.rivals == {"young": ("a-old", "b-old"), "of-unknown-age": ("a-old", "b-old", "young")}
    assert governance.matched == {"a-old": 1, "b-old": 1, "young": 1, "of-unknown-age": 0}


def test_of_equally_old_ones_the_first_by_name_governs() -> None:
    claims = [claim(name, WEB, "app=web") for name in ("c", "a", "b")]
    governance = decide(claims, pod("p", {"app": "web"}, ("ReplicaSet", "web-1")))
    assert (governance.governor, governance.rivals) == ({"p": "a"}, {"b": ("a",), "c": ("a",)})


def test_a_claim_whose_target_cannot_be_used_governs_nothing_and_conflicts_with_none() -> None:
    claims = [claim("broken", WEB, None, created=1), claim("good", WEB, "app=web", created=2)]
    governance = decide(claims, pod("p", {"app": "web"}, ("ReplicaSet", "web-1")))
    assert governance == Governance({"p": "good"}, {}, {"broken": 0, "good": 1})


def test_without_claims_or_pods_nothing_is_governed() -> None:
    assert decide([], pod("p", {"app": "web"})) == Governance({}, {}, {})
    assert decide([claim("v", WEB, "app=web")]) == Governance({}, {}, {"v": 0})


class Counted(dict[str, str]):
    """Labels that know how often a requirement was held against them."""

    lookups = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.lookups += 1
        return super().get(key, default)


@pytest.mark.parametrize("controlled", [True, False])
@pytest.mark.parametrize("selector", ["team=all,app=a{}", "team=all,app in (a{},b)", "app=a{},!x"])
def test_nothing_walks_pods_times_claims(controlled: bool, selector: str) -> None:
    count = 200
    claims = [claim(f"v{n}", ("Deployment", f"d{n}"), selector.format(n)) for n in range(count)]
    pods = [
        pod(f"p{n}", Counted(app=f"a{n}", team="all"), ("Deployment", f"d{n}") if controlled else None)
        for n in range(count)
    ]
    Counted.lookups = 0
    known = Owners({"Deployment": lambda *_: ObservedWorkload()}, {})
    assert assign_governors(claims, pods, known).governor == {f"p{n}": f"v{n}" for n in range(count)}
    assert Counted.lookups <= 2 * count


_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
_controllers = st.sampled_from([None, *TOPMOST])
_targets = st.sampled_from([WEB, ("Deployment", "api"), ("ReplicaSet", "alone"), ("Database", "db"), ("Job", "x")])
_texts = ("a=1", "a==2,b=2", "a in (1,2)", "a in (1,2),c=1", "a", "!b", "a!=1,b", "b notin (1)", "a=1,c=2", "a>1", "")
_selectors = st.sampled_from([*map(parse_selector, _texts), Selector.nothing(), None])
_ages = st.sampled_from([1.0, 2.0, 3.0, NAN])


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[TargetClaim], list[ObservedPod]]:
    claims = [
        claim(f"v{index}", *given)
        for index, given in enumerate(draw(st.lists(st.tuples(_targets, _selectors, _ages), max_size=8)))
    ]
    pods = [
        pod(f"p{index}", *given)
        for index, given in enumerate(draw(st.lists(st.tuples(_labels, _controllers), max_size=12)))
    ]
    return claims, pods


def fits(given: TargetClaim, pod: ObservedPod, owner_required: bool) -> bool:
    """The rule, as slowly and obviously as can be."""
    if given.selector is None or not given.selector.matches(pod.metadata.labels):
        return False
    controller = pod.metadata.controller
    topmost = TOPMOST[controller.kind, controller.name] if controller else None
    if topmost is None:
        return not owner_required and given.selector != Selector.everything()
    return topmost == (given.target.kind, given.target.name)


def oracle(claims: list[TargetClaim], pods: list[ObservedPod], owner_required: bool) -> Governance:
    by_age = sorted(claims, key=lambda claim: (math.isnan(claim.created), claim.created, claim.name))
    fitting = {pod.metadata.name: [c.name for c in by_age if fits(c, pod, owner_required)] for pod in pods}
    governor = {name: names[0] for name, names in fitting.items() if names}
    rivals = {c.name: {names[0] for names in fitting.values() if c.name in names[1:]} for c in by_age}
    order = [c.name for c in by_age]
    return Governance(
        governor,
        {name: tuple(sorted(older, key=order.index)) for name, older in rivals.items() if older},
        {c.name: list(governor.values()).count(c.name) for c in claims},
    )


@pytest.mark.req("CR-11")
@given(_worlds(), st.booleans(), st.randoms(use_true_random=False))
def test_each_pod_has_the_one_governor_that_walking_all_pods_and_claims_finds(
    world: tuple[list[TargetClaim], list[ObservedPod]], owner_required: bool, random: Random
) -> None:
    claims, pods = world
    governance = decide(claims, *pods, owner_required=owner_required)
    assert governance == oracle(claims, pods, owner_required)
    assert sum(governance.matched.values()) == len(governance.governor) <= len(pods)
    shuffled_claims, shuffled_pods = random.sample(claims, len(claims)), random.sample(pods, len(pods))
    assert decide(shuffled_claims, *shuffled_pods, owner_required=owner_required) == governance
    for pod in pods:
        start = build_controller_ref(NAMESPACE, pod.metadata.controller)
        one = find_governor(pod.metadata.labels, start, shuffled_claims, owners(), owner_required=owner_required)
        assert (one.name if one else None) == governance.governor.get(pod.metadata.name)


def test_the_pods_of_each_claim_that_governs_some_are_listed() -> None:
    governance = Governance({"web-0": "web", "web-1": "web", "db-0": "db"}, {}, {"web": 2, "db": 1, "idle": 0})
    assert governance.by_governor() == {"web": ["web-0", "web-1"], "db": ["db-0"]}
