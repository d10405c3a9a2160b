"""The devices of nodes: which are published, and which claims have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.builders.device_claims import GPU_CLASS, GPU_DRIVER, a_claim, a_slice, collect_devices
from trellis.core.fit import Demand
from trellis.core.fit.constraints.device_claims import DeviceObjects
from trellis.core.nodes.node_groups import GroupDevices
from trellis.core.nodes.state.node_devices import DeviceCounts, DevicesByNode, NodeDevices, count_published

GPU = f"resource.k8s.io/{GPU_DRIVER}"
TWO = (GroupDevices(GPU_CLASS, GPU_DRIVER, 2),)


def count(objects: DeviceObjects, declared: DevicesByNode | None = None) -> dict[str, NodeDevices | None]:
    counts = DeviceCounts()
    return {name: counts.find(name) for name in counts.update(objects, declared or {})}


def test_devices_of_complete_pools_without_taints_are_published() -> None:
    slices = [
        a_slice("n1", 4, tainted=1),
        a_slice("n1", 2, "nic.example.com", name="nics"),
        a_slice("n2", 8, resourceSliceCount=2),
        a_slice("n3", 8, generation=2),
        a_slice("n3", 5, generation=1, name="old"),
        a_slice("", 8),
    ]
    assert count_published(slices) == {"n1": {GPU_DRIVER: 3, "nic.example.com": 2}, "n3": {GPU_DRIVER: 8}}


def test_a_device_that_several_claims_have_is_used_once() -> None:
    objects = collect_devices(
        a_slice("n1", 4),
        a_claim("a", devices={"n1": ["gpu-0", "gpu-1"]}),
        a_claim("b", devices={"n1": ["gpu-1"], "elsewhere": ["gpu-0"]}),
        a_claim("waiting"),
    )
    assert count(objects) == {"n1": NodeDevices({GPU: 4}, Demand(amounts=((GPU, 2),)))}


def test_a_device_that_a_claim_only_administers_is_not_used() -> None:
    claim = a_claim("admin", devices={"n1": ["gpu-0"]}, admin=True)
    assert count(collect_devices(a_slice("n1", 4), claim)) == {"n1": NodeDevices({GPU: 4}, Demand(amounts=()))}


def test_a_node_has_at_most_as_many_devices_as_its_group_declares() -> None:
    assert count(collect_devices(a_slice("n1", 4), a_slice("n2", 1)), {"n1": TWO, "n2": TWO}) == {
        "n1": NodeDevices({GPU: 2}, Demand(amounts=())),
        "n2": NodeDevices({GPU: 1}, Demand(amounts=())),
    }


STATES = st.tuples(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 4)),
    st.dictionaries(st.integers(0, 5), st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1)),
    st.sets(st.sampled_from("abc")),
)


@given(st.lists(STATES, max_size=5))
def test_counting_changes_gives_what_counting_everything_gives(
    states: list[tuple[dict[str, int], dict[int, set[tuple[str, int]]], set[str]]],
) -> None:
    counts, known = DeviceCounts(), {}
    for published, claims, members in states:
        objects = collect_devices(
            *(a_slice(name, number) for name, number in published.items()),
            *(
                a_claim(f"c{number}", devices={node: [f"gpu-{at}"] for node, at in sorted(devices)})
                for number, devices in claims.items()
            ),
        )
        declared = dict.fromkeys(sorted(members), TWO)
        for name in counts.update(objects, declared):
            known[name] = counts.find(name)
        assert {name: devices for name, devices in known.items() if devices is not None} == count(objects, declared)
        assert counts.update(objects, declared) == []
