"""Repeating the steps between states gives the same states, down to the order of their objects."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.observed_workloads import ObservedObject, OwnedMeta
from trellis.core.cluster.store import BY_NAMESPACE, ObjectStore, index_by_namespace, key_of
from trellis.core.recording.format import apply_changes, diff_objects

NAMES = st.sampled_from("abcdefgh")
# What may happen between two looks: an object is put, goes, goes and comes again, or everything is listed anew.
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "remove", "again", "list"]), NAMES), max_size=8)


def made(name: str, version: int) -> ObservedObject:
    return ObservedObject(OwnedMeta(name, namespace="shop" if name < "e" else "bank", resource_version=str(version)))


def changed(
    store: ObjectStore[ObservedObject], changes: list[tuple[str, str]], version: int
) -> ObjectStore[ObservedObject]:
    for what, name in changes:
        observed = made(name, version)
        if what == "list":
            known = sorted(store.snapshot(), key=lambda stored: (stored.metadata.name > name, stored.metadata.name))
            store = store.create_empty()
            apply_changes(store, (), known)
            continue
        if what != "put":
            store.remove(key_of(observed))
        if what != "remove":
            store.put(key_of(observed), observed)
    return store


@given(st.lists(CHANGES, max_size=5))
def test_the_same_objects_in_the_same_order_whatever_happened(history: list[list[tuple[str, str]]]) -> None:
    live: ObjectStore[ObservedObject] = ObjectStore({BY_NAMESPACE: index_by_namespace})
    copy: ObjectStore[ObservedObject] = ObjectStore({BY_NAMESPACE: index_by_namespace})
    before = live.snapshot()
    for version, changes in enumerate(history):
        live = changed(live, changes, version)
        after = live.snapshot()
        diff = diff_objects(before.objects, after.objects)
        apply_changes(copy, diff.removed, diff.put)
        shown = copy.snapshot()
        assert list(shown) == list(after)
        for namespace in ("shop", "bank"):
            assert shown.by_index(BY_NAMESPACE, namespace) == after.by_index(BY_NAMESPACE, namespace)
        before = after


def test_unchanged_objects_are_not_in_the_changes() -> None:
    store: ObjectStore[ObservedObject] = ObjectStore()
    for name in "abcd":
        store.put(("shop", name), made(name, 0))
    before = store.snapshot()
    store.put(("shop", "b"), made("b", 1))
    store.remove(("shop", "c"))
    store.put(("shop", "c"), made("c", 1))
    changes = diff_objects(before.objects, store.snapshot().objects)
    assert changes.removed == (("shop", "c"),)
    assert [observed.metadata.name for observed in changes.put] == ["b", "c"]
    assert not diff_objects(before.objects, before.objects)
