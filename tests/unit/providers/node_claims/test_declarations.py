"""What a ClaimNodeGroup describes: a new node, as far as its declaration tells."""

from __future__ import annotations

from typing import Any

from support.worlds.providers.kwok_nodes import config_map, group
from support.worlds.providers.node_claims import claim_group
from trellis.api.registry import CLAIM_NODE_GROUP
from trellis.base.prices import EXAMPLE_PRICES
from trellis.providers.declared.declarations import GROUP_REFUSED, read_declarations
from trellis.providers.node_claims.declarations import DeclaredClaimGroup, build_claim_group


def declare(**spec: Any) -> DeclaredClaimGroup:
    found = read_declarations(CLAIM_NODE_GROUP, config_map(claim_group("spot", **spec)), "ns/groups", build_claim_group)
    assert found.problems == ()
    return found.groups["spot"]


def test_a_group_describes_a_new_node() -> None:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7g.xlarge"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]},
        {"key": "example.com/generation", "operator": "Gt", "values": ["5"]},
    ]
    declared = declare(
        resources={"cpu": "4", "memory": "16Gi", "pods": 58, "example.com/gpu": 1},
        labels={"team": "builds"},
        taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
        startupTaints=[{"key": "agent", "effect": "NoExecute"}],
        requirements=requirements,
        minSize=2,
        price=0.5,
        priority=7,
    )
    node = declared.group.template
    assert (declared.group.min_size, declared.group.max_size, declared.group.price) == (2, 10, 0.5)
    assert declared.group.priority == 7
    assert dict(node.status.allocatable) == {"pods": "58", "cpu": "4", "memory": "16Gi", "example.com/gpu": "1"}
    # Labels that the requirements leave open are not known before there is a node.
    assert dict(node.metadata.labels) == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "node.kubernetes.io/instance-type": "m7g.xlarge",
        "team": "builds",
        "trellis.x-k8s.io/node-group": "spot",
    }
    assert node.status.node_info.architecture == "arm64"
    # A startup taint is gone when the node is up.
    assert [taint.key for taint in node.spec.taints] == ["dedicated"]
    assert declared.document["spec"]["requirements"] == requirements
    assert declared.document["spec"]["resources"]["requests"]["example.com/gpu"] == "1"


def test_absent_fields_have_defaults() -> None:
    declared = declare(requirements=None)
    assert (declared.group.min_size, declared.group.priority) == (0, 0)
    assert declared.group.price == EXAMPLE_PRICES.cost_per_hour(4, 16 * 2**30)
    # Karpenter requires the field.
    assert declared.document["spec"]["requirements"] == []
    # The number of pods that a machine takes is not what it is chosen by, unless it is declared.
    assert declared.document["spec"]["resources"]["requests"] == {"cpu": "4", "memory": "16Gi"}
    assert declared.group.template.status.allocatable["pods"] == "110"


def test_a_group_of_another_provider_is_refused_and_costs_only_itself() -> None:
    config = config_map(group("kwok"), claim_group("spot"))
    found = read_declarations(CLAIM_NODE_GROUP, config, "ns/groups", build_claim_group)
    assert list(found.groups) == ["spot"]
    [problem] = found.problems
    assert problem.reason.reason is GROUP_REFUSED
    assert "must be ClaimNodeGroup of nodes.trellis.x-k8s.io/v1alpha1" in str(problem.reason)
