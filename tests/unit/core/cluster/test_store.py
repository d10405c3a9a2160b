from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.meta import OwnerReference, PodMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.core.cluster.store import (
    BY_NAMESPACE,
    BY_NODE,
    BY_OWNER,
    ObjectKey,
    ObjectStore,
    Snapshot,
    index_by_namespace,
    index_by_node,
    index_by_owner,
    key_of,
)
from trellis.kube.watch.cache import ObjectChange, diff_snapshots

INDEXES = {BY_NAMESPACE: index_by_namespace, BY_OWNER: index_by_owner, BY_NODE: index_by_node}


def make(name: str, *, namespace: str = "shop", node: str = "", owner: str = "", uid: str = "") -> Pod:
    owners = (OwnerReference("apps/v1", "ReplicaSet", "web", owner, True),) if owner else ()
    metadata = PodMeta(name=name, namespace=namespace, uid=uid or f"uid-{name}", owner_references=owners)
    return Pod(metadata, PodSpec(node_name=node))


def filled(*pods: Pod) -> ObjectStore[Pod]:
    store: ObjectStore[Pod] = ObjectStore(INDEXES)
    for pod in pods:
        store.put(key_of(pod), pod)
    return store


def names(snapshot: Snapshot[Pod], index: str, group: str) -> list[str]:
    return [pod.metadata.name for pod in snapshot.by_index(index, group)]


def test_objects_are_found_by_name_namespace_owner_and_node() -> None:
    snapshot = filled(
        make("a", node="n1", owner="rs-1"), make("b", node="n2", owner="rs-1"), make("c", namespace="ops", node="n1")
    ).snapshot()
    assert snapshot.get("ops", "c") is not None
    assert snapshot.get("shop", "c") is None
    assert names(snapshot, BY_NAMESPACE, "shop") == ["a", "b"]
    assert names(snapshot, BY_OWNER, "rs-1") == ["a", "b"]
    assert names(snapshot, BY_NODE, "n1") == ["a", "c"]
    assert set(snapshot.index_values(BY_NODE)) == {"n1", "n2"}


def test_a_group_can_be_read_as_it_is_now_while_snapshots_stay_as_they_were() -> None:
    store = filled(make("a", node="n1"), make("b", node="n2"))
    before = store.snapshot()
    store.put(("shop", "b"), make("b", node="n1"))
    assert list(store.index_keys(BY_NODE, "n1")) == [("shop", "a"), ("shop", "b")]
    assert list(store.index_keys(BY_NODE, "n2")) == []
    assert names(before, BY_NODE, "n1") == ["a"]


def test_any_function_makes_an_index_and_an_object_may_be_in_many_groups() -> None:
    store: ObjectStore[Pod] = ObjectStore({"letters": lambda pod: tuple(pod.metadata.name)})
    store.put(("shop", "ab"), make("ab"))
    store.put(("shop", "bc"), make("bc"))
    snapshot = store.snapshot()
    assert names(snapshot, "letters", "b") == ["ab", "bc"]
    assert names(snapshot, "letters", "c") == ["bc"]


def test_an_owner_that_does_not_control_is_no_owner() -> None:
    friend = OwnerReference("v1", "ConfigMap", "settings", "cm-1", False)
    store = filled(Pod(PodMeta(name="a", namespace="shop", owner_references=(friend,))))
    assert names(store.snapshot(), BY_OWNER, "cm-1") == []


def test_a_pod_that_gets_a_node_changes_its_group() -> None:
    store = filled(make("a"), make("b", node="n1"))
    store.put(("shop", "a"), make("a", node="n1"))
    assert names(store.snapshot(), BY_NODE, "n1") == ["b", "a"]
    assert "" not in store.snapshot().index_values(BY_NODE)


def test_a_group_without_members_is_no_group() -> None:
    store = filled(make("a", node="n1"))
    store.remove(("shop", "a"))
    assert list(store.snapshot().index_values(BY_NODE)) == []
    assert names(store.snapshot(), BY_NODE, "n1") == []


def test_a_snapshot_does_not_see_what_comes_after_it() -> None:
    store = filled(make("a", node="n1"), make("b", node="n1"))
    before = store.snapshot()
    store.put(("shop", "a"), make("a", node="n2"))
    store.remove(("shop", "b"))
    store.put(("shop", "c"), make("c", node="n1"))
    store.reject(("shop", "d"), "cannot be read")
    assert [pod.metadata.name for pod in before] == ["a", "b"]
    assert names(before, BY_NODE, "n1") == ["a", "b"]
    assert names(before, BY_NODE, "n2") == []
    assert dict(before.rejected) == {}
    assert names(store.snapshot(), BY_NODE, "n1") == ["c"]


def test_a_rejected_object_keeps_what_was_known_until_it_can_be_read_again() -> None:
    store = filled(make("a", node="n1"))
    store.reject(("shop", "a"), "nodeName is a number")
    assert store.snapshot().get("shop", "a") == make("a", node="n1")
    assert dict(store.snapshot().rejected) == {("shop", "a"): "nodeName is a number"}
    store.put(("shop", "a"), make("a", node="n2"))
    assert dict(store.snapshot().rejected) == {}


def test_a_rejected_object_that_goes_is_forgotten_altogether() -> None:
    store = filled(make("a"))
    store.reject(("shop", "a"), "nodeName is a number")
    store.remove(("shop", "a"))
    assert dict(store.snapshot().objects) == {}
    assert dict(store.snapshot().rejected) == {}


def test_a_namesake_is_reported_as_one_that_went_and_one_that_came() -> None:
    old, new = make("a", uid="1"), make("a", uid="2")
    changes = list(diff_snapshots(filled(old).snapshot(), filled(new).snapshot()))
    assert changes == [ObjectChange(("shop", "a"), old, None), ObjectChange(("shop", "a"), None, new)]


KEYS = st.tuples(st.sampled_from(["shop", "ops"]), st.sampled_from("abcdef"))
NODES = st.sampled_from(["", "n1", "n2", "n3"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "remove", "snapshot"]), KEYS, NODES), max_size=60)


@given(steps=STEPS)
def test_every_snapshot_stays_what_the_store_was_when_it_was_taken(steps: list[tuple[str, ObjectKey, str]]) -> None:
    store: ObjectStore[Pod] = ObjectStore(INDEXES)
    current: dict[ObjectKey, Pod] = {}
    taken: list[tuple[Snapshot[Pod], dict[ObjectKey, Pod]]] = []
    for step, key, node in steps:
        if step == "put":
            current[key] = make(key[1], namespace=key[0], node=node)
            store.put(key, current[key])
        elif step == "remove":
            assert store.remove(key) == current.pop(key, None)
        else:
            taken.append((store.snapshot(), dict(current)))
    taken.append((store.snapshot(), current))
    for snapshot, then in taken:
        assert dict(snapshot.objects) == then
        for index, function in ((BY_NODE, index_by_node), (BY_NAMESPACE, index_by_namespace)):
            expected: dict[str, set[ObjectKey]] = {}
            for key, pod in then.items():
                expected.setdefault(function(pod)[0], set()).add(key)
            groups = {
                group: {key_of(pod) for pod in snapshot.by_index(index, group)}
                for group in snapshot.index_values(index)
            }
            assert groups == expected


@given(before=st.dictionaries(KEYS, NODES), after=st.dictionaries(KEYS, NODES))
def test_the_differences_lead_from_one_state_to_the_other(
    before: dict[ObjectKey, str], after: dict[ObjectKey, str]
) -> None:
    one, other = (
        filled(*(make(name, namespace=space, node=node) for (space, name), node in state.items())).snapshot()
        for state in (before, after)
    )
    folded = dict(one.objects)
    for change in diff_snapshots(one, other):
        assert folded.pop(change.key, None) == change.old
        if change.new is not None:
            folded[change.key] = change.new
    assert folded == dict(other.objects)


def test_a_snapshot_shares_the_objects_instead_of_copying_them() -> None:
    store = filled(make("a"))
    first = store.snapshot()
    store.put(("shop", "b"), make("b"))
    assert store.snapshot().get("shop", "a") is first.get("shop", "a")
