"""Which replica owns a namespace, and which one leads a component: exactly one, and few move when replicas change."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trellis.base.replica_assignment import (
    MemberView,
    NamespaceShard,
    deal_out,
    find_owner,
    rank_members,
)

NAMES = st.text("abcdefgh-0123456789", min_size=1, max_size=12)
MEMBERS = st.lists(NAMES, min_size=1, max_size=8, unique=True).map(tuple)
COMPONENTS = ("recommender", "admission", "updater", "hvpa", "buffers", "nodes")


def shards(members: tuple[str, ...]) -> list[NamespaceShard]:
    return [NamespaceShard((MemberView(member, members),)) for member in members]


@given(NAMES, MEMBERS)
def test_exactly_one_replica_covers_a_namespace(namespace: str, members: tuple[str, ...]) -> None:
    assert sum(shard.covers(namespace) for shard in shards(members)) == 1


@given(NAMES, MEMBERS, st.randoms(use_true_random=False))
def test_the_order_in_which_members_are_known_does_not_matter(namespace: str, members: tuple[str, ...], draw) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(members)
    draw.shuffle(shuffled)
    assert find_owner(namespace, members) == find_owner(namespace, tuple(shuffled))


@given(st.lists(NAMES, max_size=50, unique=True), MEMBERS, st.data())
def test_a_replica_that_leaves_moves_only_its_own_namespaces(
    namespaces: list[str], members: tuple[str, ...], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(members))
    remaining = tuple(member for member in members if member != gone)
    for namespace in namespaces:
        before = find_owner(namespace, members)
        assert before == gone or find_owner(namespace, remaining) == before


@given(st.lists(NAMES, max_size=50, unique=True), MEMBERS, NAMES)
def test_a_replica_that_joins_takes_namespaces_and_moves_no_others(
    namespaces: list[str], members: tuple[str, ...], joining: str
) -> None:
    grown = (*members, joining)
    for namespace in namespaces:
        assert find_owner(namespace, grown) in {find_owner(namespace, members), joining}


def test_namespaces_are_spread_evenly() -> None:
    members = tuple(f"vpa-recommender-lease-member-{number}" for number in range(4))
    counts = Counter(find_owner(f"team-{number}", members) for number in range(4_000))
    assert all(850 < counts[member] < 1_150 for member in members), counts


def test_without_members_there_is_no_owner_and_without_views_a_shard_covers_nothing() -> None:
    assert find_owner("shop", ()) is None
    assert not NamespaceShard().covers("shop")


@given(NAMES, MEMBERS, MEMBERS)
def test_a_namespace_that_another_view_claims_is_not_covered(
    namespace: str, members: tuple[str, ...], later: tuple[str, ...]
) -> None:
    """Two replicas whose views differ never cover the same namespace, once each knows the view of the other."""
    first, second = MemberView(members[0], members), MemberView("another", (*later, "another"))
    covering = [NamespaceShard((first,), (second,)), NamespaceShard((second,), (first,))]
    assert sum(shard.covers(namespace) for shard in covering) <= 1


@given(st.sets(st.sampled_from(COMPONENTS)), MEMBERS)
def test_components_are_dealt_out_evenly(components: set[str], members: tuple[str, ...]) -> None:
    owners = deal_out(dict.fromkeys(components, members))
    counts = Counter(owners.values())
    assert owners.keys() == components
    assert all(count <= -(-len(components) // len(members)) for count in counts.values())


@given(st.dictionaries(st.sampled_from(COMPONENTS), st.lists(NAMES, max_size=4)))
def test_a_component_is_led_by_a_replica_that_is_ready_for_it(candidates: dict[str, list[str]]) -> None:
    owners = deal_out(candidates)
    assert owners.keys() == {component for component, members in candidates.items() if members}
    assert all(member in candidates[component] for component, member in owners.items())


@given(NAMES, MEMBERS)
def test_the_owner_is_the_first_of_the_ranking(namespace: str, members: tuple[str, ...]) -> None:
    assert rank_members(namespace, members)[0] == find_owner(namespace, members)


@given(st.integers(0, 100), MEMBERS)
def test_the_parts_of_all_replicas_add_up_to_the_whole_and_differ_by_one_at_most(
    total: int, members: tuple[str, ...]
) -> None:
    parts = [MemberView(member, members).part_of(total) for member in members]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1
