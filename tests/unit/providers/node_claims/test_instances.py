"""Instances by what claims say, whatever that is: contradictions cost no other claim, and tending comes to an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_time import run
from support.worlds.providers.kwok_nodes import NOW
from support.worlds.providers.node_claims import ClaimWorld
from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL
from trellis.core.nodes.node_groups import find_group_problem
from trellis.providers.node_claims.instances import RELEASED_ANNOTATION, REPORT_FINALIZER

TYPES = ("Launched", "Registered", "Initialized", "Ready", "Drained")
AT = "2026-11-15T18:00:00Z"

CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(TYPES),
            "status": st.sampled_from(["True", "False", "Unknown", "Maybe"]),
            "reason": st.sampled_from(["", "AwaitingReconciliation", "LaunchFailed", "MultipleNodesFound"]),
        },
        optional={"lastTransitionTime": st.just(AT), "message": st.text(max_size=8)},
    ),
    max_size=6,
    unique_by=lambda condition: condition["type"],
)
METADATA = st.fixed_dictionaries(
    {
        "labels": st.just({CLAIM_GROUP_LABEL: "small"}),
        "finalizers": st.sampled_from([[], [REPORT_FINALIZER], ["example.com/other", REPORT_FINALIZER]]),
        "annotations": st.sampled_from([{}, {RELEASED_ANNOTATION: "true"}]),
    },
    optional={"deletionTimestamp": st.just(AT)},
)
STATUS = st.fixed_dictionaries(
    {}, optional={"conditions": CONDITIONS, "nodeName": st.just("n"), "providerID": st.just("cloud:///1")}
)


def add(world: ClaimWorld, name: str, metadata: dict[str, Any], status: dict[str, Any]) -> None:
    if "deletionTimestamp" in metadata and not metadata["finalizers"]:
        # An API server has no such object.
        metadata = {**metadata, "finalizers": ["example.com/other"]}
    world.add_claim(name, **metadata)
    path = f"/apis/karpenter.sh/v1/nodeclaims/{name}"
    if path in world.server.objects:
        world.server.put(path, {**world.server.objects[path], "status": status})


@given(st.lists(st.tuples(METADATA, STATUS), max_size=4))
def test_any_claim_gives_an_instance_and_is_tended_to_an_end(claims: list[tuple[Any, Any]]) -> None:
    async def main() -> None:
        world = ClaimWorld()
        for number, (metadata, status) in enumerate(claims, 1):
            add(world, f"small-{number}", metadata, status)
        state = await world.state()
        assert find_group_problem(state) is None
        assert len(state.instances) == len(world.claims())
        assert state.target <= len(state.instances)
        for _ in range(3):
            await world.tend()
        assert (await world.provider.tend(NOW)).steps == ()
        await world.release(*await world.states())
        for _ in range(3):
            await world.tend()
        assert (await world.state()).target == 0

    run(main())


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, "Ordered"),
        ({"Launched": "True"}, "Ordered"),
        ({"Launched": "True", "Registered": "True"}, "Ordered"),
        ({"Launched": "True", "Registered": "True", "Initialized": "Unknown"}, "Ordered"),
        ({"Launched": "True", "Registered": "True", "Initialized": "True"}, "Running"),
        # Karpenter has found two nodes with the machine of the claim.
        ({"Launched": "True", "Registered": "False"}, "Failed"),
    ],
)
def test_an_instance_is_as_far_as_its_conditions(conditions: dict[str, str], state: str) -> None:
    async def main() -> None:
        world = ClaimWorld()
        listed = [{"type": kind, "status": status, "reason": "R"} for kind, status in conditions.items()]
        add(world, "small-1", {"labels": {CLAIM_GROUP_LABEL: "small"}, "finalizers": []}, {"conditions": listed})
        assert await world.states() == {"small-1": state}

    run(main())
