"""Affinity, anti-affinity and topology spread beside other pods, compared with the scheduler's rules."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.nodes_and_pods import seeded
from support.builders.pod_affinities import NAMESPACES, REQUIRED, a_node_in_domains, a_pod_with_rules
from support.oracles import fit
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidSelector
from trellis.core.fit import (
    Demand,
    ExistingPods,
    NodeTable,
    Occupancy,
    PodProfile,
    UnfitNodes,
    explain_unfit_nodes,
    find_eligible_nodes,
    find_fitting_nodes,
)
from trellis.core.fit.constraints.inter_pod_rules import (
    EXISTING_POD_ANTI_AFFINITY,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY_BROKEN,
    SPREAD_TOO_UNEVEN,
)
from trellis.core.fit.filters import TOPOLOGY_LABEL_MISSING

Json = dict[str, Any]

RNGS = st.integers(0, 2**32 - 1).map(seeded)

APP = {"matchLabels": {"app": "web"}}


def node(name: str, zone: str = "", spec: Json | None = None, **labels: str) -> Node:
    zoned = {"zone": zone} if zone else {}
    document = {
        "metadata": {"name": name, "labels": {"host": name} | zoned | labels},
        "spec": spec or {},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
    }
    return msgspec.convert(document, Node)


def pod(labels: Json | None = None, namespace: str = "red", ends: bool = False, **spec: Any) -> Pod:
    metadata: Json = {"name": "p", "namespace": namespace, "labels": {"app": "web"} if labels is None else labels}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [{"name": "c"}]} | spec}, Pod)


def near(*terms: Json) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": APP} | t for t in terms]}}}


def apart(*terms: Json) -> Json:
    required = [{"topologyKey": "zone", "labelSelector": APP} | term for term in terms]
    return {"affinity": {"podAntiAffinity": {REQUIRED: required}}}


def spread(*rules: Json) -> Json:
    usual = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    return {"topologySpreadConstraints": [usual | rule for rule in rules]}


def demand(of: Pod) -> Demand:
    return Demand.of(of.spec, metadata=of.metadata)


def where(table: NodeTable, asked: Pod, placed: Iterable[tuple[str, Pod]] = ()) -> list[str]:
    """The nodes on which a pod fits beside others."""
    neighbours = ExistingPods(table, ((table.find(name), PodProfile.of(pod)) for name, pod in placed), NAMESPACES)
    return sorted(table.names(find_fitting_nodes(table, demand(asked), None, neighbours)))


def three_zones() -> NodeTable:
    return NodeTable([node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c"), node("x1")])


# Agreement with the rules, one pod and one node at a time


@given(RNGS)
def test_columns_agree_with_the_rules_while_pods_are_added_and_removed(rng: Random) -> None:
    nodes = {name: a_node_in_domains(rng, name, "s") for name in (f"n{at}" for at in range(rng.choice((1, 4, 8))))}
    table = NodeTable(msgspec.convert(node, Node) for node in nodes.values())
    used, neighbours = Occupancy(table), ExistingPods(table, namespaces=NAMESPACES)
    placed: list[tuple[str, Json]] = []
    for at in range(rng.choice((4, 14))):
        written = a_pod_with_rules(rng, f"p{at}", "s", list(nodes))
        pod_demand = demand(msgspec.convert(written, Pod))
        expected = [name for name in nodes if fit.fits_beside(written, nodes[name], nodes, placed, NAMESPACES)]
        assert sorted(table.names(find_fitting_nodes(table, pod_demand, used, neighbours))) == expected, (
            written,
            placed,
        )
        obstacles = explain_unfit_nodes(table, pod_demand, used, neighbours)
        assert sum(obstacle.nodes for obstacle in obstacles) == len(nodes) - len(expected)
        if rng.random() < 0.1:
            written["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        # Anywhere, fitting or not: rules may have been broken before.
        chosen = rng.choice(expected or list(nodes))
        placed.append((chosen, written))
        used.add(table.find(chosen), pod_demand)
        neighbours.add(table.find(chosen), PodProfile.of(msgspec.convert(written, Pod)))
        if rng.random() < 0.2:
            name, deleted = placed.pop(rng.randrange(len(placed)))
            remaining = msgspec.convert(deleted, Pod)
            used.remove(table.find(name), demand(remaining))
            neighbours.remove(table.find(name), PodProfile.of(remaining))


@given(RNGS)
def test_existing_pods_after_changes_equal_those_made_at_once(rng: Random) -> None:
    table = NodeTable()
    pods = [msgspec.convert(a_pod_with_rules(rng, f"p{at}", "s"), Pod) for at in range(8)]
    followed = ExistingPods(table, namespaces=NAMESPACES)
    placed: list[tuple[str, Pod]] = []
    for _ in range(15):
        name = f"n{rng.randrange(6)}"
        if table.find(name) >= 0 and rng.random() < 0.3:
            followed.clear(table.find(name))
            table.remove(name)
            placed = [entry for entry in placed if entry[0] != name]
        else:
            table.update(msgspec.convert(a_node_in_domains(rng, name, "s"), Node))
            placed.append((name, rng.choice(pods)))
            followed.add(table.find(name), PodProfile.of(placed[-1][1]))
        pod_demand = demand(rng.choice(pods))
        residents = [(table.find(where), PodProfile.of(pod)) for where, pod in placed]
        anew = ExistingPods(table, residents, NAMESPACES)
        for existing in (followed, followed.copy()):
            assert table.names(find_fitting_nodes(table, pod_demand, None, existing)) == table.names(
                find_fitting_nodes(table, pod_demand, None, anew)
            )


# Affinity, by example


def test_a_pod_with_affinity_fits_only_in_domains_with_a_matching_pod() -> None:
    table, client = three_zones(), pod({"app": "client"}, **near({}))
    assert where(table, client, [("a1", pod())]) == ["a1", "a2"]
    assert where(table, client, [("a1", pod()), ("c1", pod())]) == ["a1", "a2", "c1"]
    assert where(table, client) == []
    assert where(table, client, [("a1", pod(namespace="blue"))]) == []


def test_the_first_pod_with_affinity_to_its_group_fits_in_any_domain_and_others_follow() -> None:
    table, first = three_zones(), pod(**near({}))
    assert where(table, first) == ["a1", "a2", "b1", "c1"]
    assert where(table, first, [("b1", first)]) == ["b1"]
    # A pod of the group that is in no domain is no company.
    assert where(table, first, [("x1", first)]) == ["a1", "a2", "b1", "c1"]


def test_one_pod_must_match_all_affinity_terms_in_the_domain_of_each() -> None:
    table = NodeTable([node("a1", "a", rack="1"), node("a2", "a", rack="2"), node("b1", "b", rack="1")])
    expected = near({}, {"topologyKey": "rack", "labelSelector": {"matchLabels": {"tier": "cache"}}})
    pod_demand = pod({"app": "client"}, **expected)
    both = pod({"app": "web", "tier": "cache"})
    assert where(table, pod_demand, [("a1", pod()), ("a1", pod({"tier": "cache"}))]) == []
    assert where(table, pod_demand, [("a1", both)]) == ["a1"]
    assert where(table, pod_demand, [("a1", both), ("b1", both)]) == ["a1", "b1"]
    # Each term finds a pod, if not the same one, in its own domain.
    assert where(table, pod_demand, [("a2", both), ("b1", both)]) == ["a1", "a2", "b1"]


def test_affinity_counts_pods_in_the_named_or_selected_namespaces() -> None:
    table = three_zones()
    for written, result in (
        ({"namespaces": ["blue"]}, True),
        ({"namespaces": ["red"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, False),
        ({"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({}, False),
    ):
        pod_demand = pod({"app": "client"}, **near(written))
        assert where(table, pod_demand, [("b1", pod(namespace="blue"))]) == (["b1"] if result else [])


def test_namespace_labels_count_once_they_are_known() -> None:
    table, pod_demand = (
        three_zones(),
        demand(pod({"app": "x"}, **near({"namespaceSelector": {"matchLabels": {"k": "v"}}}))),
    )
    neighbours = ExistingPods(table, [(table.find("b1"), PodProfile.of(pod(namespace="new")))])
    assert not find_fitting_nodes(table, pod_demand, None, neighbours).any()
    neighbours.put_namespace_labels("new", {"k": "v"})
    assert table.names(find_fitting_nodes(table, pod_demand, None, neighbours)) == ["b1"]


def test_match_label_keys_narrow_or_negate_the_selector() -> None:
    table = three_zones()
    old, new = pod({"app": "web", "version": "1"}), pod({"app": "web", "version": "2"})
    placed = [("a1", old), ("b1", new)]
    mine = {"app": "web", "version": "2"}
    assert where(table, pod(mine, **near({"matchLabelKeys": ["version", "absent"]})), placed) == ["b1"]
    assert where(table, pod(mine, **near({"mismatchLabelKeys": ["version"]})), placed) == ["a1", "a2"]
    made = APP | {"matchExpressions": [{"key": "version", "operator": "In", "values": ["1"]}]}
    changed = pod(mine, **near({"matchLabelKeys": ["version"], "labelSelector": made}))
    assert where(table, changed, placed) == ["a1", "a2"]


# Anti-affinity, by example


def test_anti_affinity_excludes_in_both_directions() -> None:
    table, loner = three_zones(), pod(**apart({}))
    assert where(table, loner, [("a1", pod())]) == ["b1", "c1", "x1"]
    assert where(table, pod(), [("a1", loner)]) == ["b1", "c1", "x1"]
    assert where(table, pod({"app": "other"}), [("a1", loner)]) == ["a1", "a2", "b1", "c1", "x1"]
    assert where(table, pod(namespace="blue"), [("a1", loner)]) == ["a1", "a2", "b1", "c1", "x1"]
    wide = pod(**apart({"namespaceSelector": {"matchLabels": {"team": "b"}}}))
    assert where(table, pod(namespace="blue"), [("a1", wide)]) == ["b1", "c1", "x1"]


def test_an_anti_affinity_term_is_dropped_with_its_last_pod() -> None:
    table = three_zones()
    loner, other = PodProfile.of(pod(**apart({}))), PodProfile.of(pod())
    neighbours = ExistingPods(table, [(table.find("a1"), loner), (table.find("b1"), loner)])
    neighbours.remove(table.find("a1"), loner)
    assert len(neighbours.find_anti_affinity_terms(other)) == 1
    neighbours.remove(table.find("b1"), loner)
    assert neighbours.find_anti_affinity_terms(other) == []


def test_a_node_without_the_topology_label_excludes_no_pod() -> None:
    table, loner = three_zones(), pod(**apart({}))
    assert where(table, loner, [("x1", loner)]) == ["a1", "a2", "b1", "c1", "x1"]


def test_a_terminating_pod_still_excludes_others() -> None:
    table, loner = three_zones(), pod(**apart({}))
    assert where(table, loner, [("a1", pod(ends=True))]) == ["b1", "c1", "x1"]
    assert where(table, pod(), [("a1", pod(ends=True, **apart({})))]) == ["b1", "c1", "x1"]


def test_any_matching_term_excludes_a_pod() -> None:
    table = three_zones()
    pod_demand = pod(**apart({}, {"topologyKey": "host", "labelSelector": {}}))
    assert where(table, pod_demand, [("a1", pod()), ("x1", pod({}))]) == ["b1", "c1"]


# Spread, by example


def test_no_domain_exceeds_the_lowest_by_more_than_the_skew() -> None:
    table, pod_demand = three_zones(), pod(**spread({}))
    assert where(table, pod_demand) == ["a1", "a2", "b1", "c1"]
    assert where(table, pod_demand, [("a1", pod())]) == ["b1", "c1"]
    assert where(table, pod_demand, [("a1", pod()), ("b1", pod())]) == ["c1"]
    assert where(table, pod_demand, [("a1", pod()), ("b1", pod()), ("c1", pod())]) == ["a1", "a2", "b1", "c1"]
    two = pod(**spread({"maxSkew": 2}))
    assert where(table, two, [("a1", pod())]) == ["a1", "a2", "b1", "c1"]


def test_a_pod_outside_its_own_spread_selector_fits_where_others_are_even() -> None:
    table, pod_demand = three_zones(), pod({"app": "other"}, **spread({}))
    assert where(table, pod_demand, [("a1", pod())]) == ["a1", "a2", "b1", "c1"]
    assert where(table, pod_demand, [("a1", pod()), ("a1", pod())]) == ["b1", "c1"]


def test_spread_counts_only_pods_of_the_namespace_that_are_not_terminating() -> None:
    table, pod_demand = three_zones(), pod(**spread({}))
    assert where(table, pod_demand, [("a1", pod(namespace="blue")), ("b1", pod(ends=True))]) == ["a1", "a2", "b1", "c1"]


def test_with_fewer_than_min_domains_the_lowest_count_is_zero() -> None:
    table = NodeTable([node("a1", "a"), node("b1", "b")])
    placed = [("a1", pod()), ("b1", pod())]
    assert where(table, pod(**spread({"minDomains": 2})), placed) == ["a1", "b1"]
    assert where(table, pod(**spread({"minDomains": 3})), placed) == []
    assert where(table, pod(**spread({"minDomains": 3})), placed[:1]) == ["b1"]


def test_nodes_outside_the_node_affinity_are_in_no_domain_unless_ignored() -> None:
    table = NodeTable([node("a1", "a", disk="fast"), node("b1", "b", disk="fast"), node("c1", "c")])
    placed = [("a1", pod()), ("b1", pod())]
    fast: Json = {"nodeSelector": {"disk": "fast"}}
    assert where(table, pod(**spread({}), **fast), placed) == ["a1", "b1"]
    assert where(table, pod(**spread({"nodeAffinityPolicy": "Ignore"}), **fast), placed) == []


def test_tainted_nodes_are_in_a_domain_unless_taints_are_honored() -> None:
    taints = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    table = NodeTable([node("a1", "a"), node("b1", "b"), node("c1", "c", taints)])
    placed = [("a1", pod()), ("b1", pod())]
    assert where(table, pod(**spread({})), placed) == []
    assert where(table, pod(**spread({"nodeTaintsPolicy": "Honor"})), placed) == ["a1", "b1"]


def test_all_spread_constraints_must_hold_and_a_node_outside_one_counts_for_none() -> None:
    table = NodeTable([node("a1", "a", rack="1"), node("a2", "a"), node("b1", "b", rack="2")])
    both = spread({}, {"topologyKey": "rack"})
    assert where(table, pod(**both), [("a2", pod())]) == ["a1", "b1"]
    assert where(table, pod(**both), [("a1", pod())]) == ["b1"]
    assert where(table, pod(**spread({}, {"topologyKey": "host"})), [("a1", pod()), ("b1", pod())]) == ["a2"]


def test_preferred_rules_and_empty_selectors_exclude_no_node() -> None:
    table = three_zones()
    placed = [("a1", pod()), ("a1", pod())]
    preferring = pod(**spread({"whenUnsatisfiable": "ScheduleAnyway"}))
    assert where(table, preferring, placed) == ["a1", "a2", "b1", "c1", "x1"]
    assert where(table, pod(**spread({"labelSelector": {}})), placed) == ["a1", "a2", "b1", "c1"]
    without = pod(**spread({"labelSelector": None}))
    assert where(table, without, placed) == ["a1", "a2", "b1", "c1"]


def test_match_label_keys_spread_each_revision_by_itself() -> None:
    table = three_zones()
    old, new = {"app": "web", "version": "1"}, {"app": "web", "version": "2"}
    pod_demand = pod(new, **spread({"matchLabelKeys": ["version"]}))
    assert where(table, pod_demand, [("a1", pod(old)), ("b1", pod(new))]) == ["a1", "a2", "c1"]


# Why not


def test_each_inter_pod_rule_has_its_reason() -> None:
    table = NodeTable([node("a1", "a"), node("b1", "b"), node("c1", "c"), node("d1", "d"), node("x1")])
    written = near({}) | spread({"labelSelector": {"matchLabels": {"app": "client"}}})
    written["affinity"] |= apart({"labelSelector": {"matchLabels": {"app": "noisy"}}})["affinity"]
    hermit = pod({"app": "hermit"}, **apart({"labelSelector": {"matchLabels": {"app": "client"}}}))
    placed = [
        ("a1", pod({"app": "client"})),
        ("c1", pod()),
        ("c1", pod({"app": "noisy"})),
        ("d1", pod()),
        ("d1", hermit),
    ]
    neighbours = ExistingPods(table, ((table.find(name), PodProfile.of(pod)) for name, pod in placed))
    assert explain_unfit_nodes(table, demand(pod({"app": "client"}, **written)), None, neighbours) == (
        UnfitNodes(TOPOLOGY_LABEL_MISSING, 1, "zone"),
        UnfitNodes(SPREAD_TOO_UNEVEN, 1),
        UnfitNodes(POD_AFFINITY_UNMET, 1),
        UnfitNodes(POD_ANTI_AFFINITY_BROKEN, 1),
        UnfitNodes(EXISTING_POD_ANTI_AFFINITY, 1),
    )


def test_without_existing_pods_a_pod_is_the_first_of_its_group() -> None:
    table = three_zones()
    assert table.names(find_fitting_nodes(table, demand(pod(**near({}))))) == ["a1", "a2", "b1", "c1"]
    assert not find_fitting_nodes(table, demand(pod({"app": "client"}, **near({})))).any()
    assert table.names(find_fitting_nodes(table, demand(pod(**spread({}))))) == ["a1", "a2", "b1", "c1"]
    assert table.names(find_eligible_nodes(table, demand(pod(**near({}))))) == ["a1", "a2", "b1", "c1"]


def test_without_metadata_a_demand_has_no_inter_pod_rules() -> None:
    pod_demand = Demand.of(pod(**near({}) | spread({})).spec)
    assert (pod_demand.pod_affinity, pod_demand.spread, pod_demand.profile) == ((), (), PodProfile())


# Bad input


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (near({"labelSelector": {"matchLabels": {"a b": "c"}}}), "podAffinity.required[0]"),
        (apart({}, {"namespaceSelector": {"matchLabels": {"a b": "c"}}}), "required[1].namespaceSelector"),
        (spread({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]}}), "SpreadConstraints[0]"),
    ],
)
def test_an_unreadable_selector_is_refused_with_its_path(spec: Json, place: str) -> None:
    with pytest.raises(InvalidSelector) as refused:
        demand(pod(**spec))
    assert place in refused.value.rule


def test_a_placed_pod_with_unreadable_terms_excludes_no_pod() -> None:
    odd = PodProfile.of(pod(**apart({"labelSelector": {"matchLabels": {"a b": "c"}}})))
    assert (odd.namespace, odd.labels, odd.anti_affinity) == ("red", (("app", "web"),), ())


# Neighbours that follow their table


def test_existing_pods_grow_with_the_table_and_ignore_unknown_nodes() -> None:
    table = NodeTable([node("n0", "a")])
    neighbours = ExistingPods(table, [(0, PodProfile.of(pod())), (-1, PodProfile.of(pod()))])
    pod_demand = demand(pod(**apart({"topologyKey": "host"})))
    assert not find_fitting_nodes(table, pod_demand, None, neighbours).any()
    for at in range(1, 200):
        table.update(node(f"n{at}", "a"))
    neighbours.add(table.find("n199"), PodProfile.of(pod()))
    assert int(np.count_nonzero(find_fitting_nodes(table, pod_demand, None, neighbours))) == 198


def test_pods_follow_their_node_to_another_domain() -> None:
    table, pod_demand = three_zones(), demand(pod({"app": "client"}, **near({})))
    neighbours = ExistingPods(table, [(table.find("a1"), PodProfile.of(pod()))])
    assert table.names(find_fitting_nodes(table, pod_demand, None, neighbours)) == ["a1", "a2"]
    table.update(node("a1", "b"))
    assert table.names(find_fitting_nodes(table, pod_demand, None, neighbours)) == ["a1", "b1"]


def test_a_copy_changes_independently() -> None:
    table, pod_demand = three_zones(), demand(pod(**apart({})))
    neighbours = ExistingPods(table, [(table.find("a1"), PodProfile.of(pod()))])
    tried = neighbours.copy()
    tried.add(table.find("b1"), PodProfile.of(pod()))
    assert table.names(find_fitting_nodes(table, pod_demand, None, tried)) == ["c1", "x1"]
    assert table.names(find_fitting_nodes(table, pod_demand, None, neighbours)) == ["b1", "c1", "x1"]


def test_queries_beyond_the_cache_limit_stay_correct() -> None:
    table = three_zones()
    neighbours = ExistingPods(table, [(table.find("a1"), PodProfile.of(pod({"app": "a2500"})))])
    for at in (*range(2600), 2500):
        pod_demand = demand(pod({"app": "x"}, **near({"labelSelector": {"matchLabels": {"app": f"a{at}"}}})))
        neighbours.add(table.find("b1"), PodProfile.of(pod({"app": f"a{at}"})))
        expected = ["a1", "a2", "b1"] if at == 2500 else ["b1"]
        assert sorted(table.names(find_fitting_nodes(table, pod_demand, None, neighbours))) == expected
