"""Selections: one is cut out of a wider one, and what has all objects of several is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod
from trellis.kube.watch.selection import Selection, widen_all

ENDED = "status.phase!=Succeeded,status.phase!=Failed"
ON_NODES = f"spec.nodeName!=,{ENDED}"
NOT_PENDING = "status.phase!=Pending"


def pod(phase: str, node: str = "n-1", namespace: str = "shop") -> Pod:
    metadata = {"name": "web-0", "namespace": namespace}
    return convert_object({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)


SELECTIONS = st.builds(
    Selection,
    namespaces=st.sampled_from([(), ("shop",), ("bank",), ("bank", "shop")]),
    field_selector=st.lists(
        st.sampled_from(["spec.nodeName!=", "status.phase!=Failed", "status.phase=Running", "spec.nodeName=n-1"]),
        unique=True,
    ).map(",".join),
)
PODS = st.builds(
    pod,
    st.sampled_from(["Pending", "Running", "Failed"]),
    st.sampled_from(["", "n-1", "n-2"]),
    st.sampled_from(["shop", "bank"]),
)


def test_pods_are_chosen_by_phase_node_and_namespace() -> None:
    selection = Selection(("shop",), field_selector=ON_NODES)
    assert selection.matches(pod("Running"))
    assert not selection.matches(pod("Running", node=""))
    assert not selection.matches(pod("Failed"))
    assert not selection.matches(pod("Running", namespace="bank"))
    assert Selection(field_selector="metadata.name=web-0").matches(pod("Failed", node=""))


def test_what_several_components_follow_has_the_requirements_that_all_of_them_make() -> None:
    followed = [Selection(field_selector=ON_NODES), Selection(field_selector=ENDED)]
    assert widen_all(followed) == Selection(field_selector=ENDED)
    assert widen_all([*followed, Selection(field_selector=NOT_PENDING)]) == Selection()
    assert widen_all([Selection(("shop",)), Selection(("bank",))]) == Selection(("bank", "shop"))
    assert widen_all([Selection(("shop",)), Selection()]) == Selection()


@pytest.mark.parametrize("other", [Selection(label_selector="a=c"), Selection()])
def test_selections_by_different_labels_cover_neither_each_other_nor_less_than_the_kind(other: Selection) -> None:
    labelled = Selection(label_selector="a=b")
    assert not labelled.covers(other)
    assert not other.covers(labelled)
    assert labelled.widen(other) == Selection()


@given(st.lists(SELECTIONS, min_size=1, max_size=3), PODS)
def test_a_wider_selection_covers_each_of_its_parts_and_has_their_objects(parts: list[Selection], one: Pod) -> None:
    wide = widen_all(parts)
    assert all(wide.covers(part) for part in parts)
    assert wide.matches(one) or not any(part.matches(one) for part in parts)
