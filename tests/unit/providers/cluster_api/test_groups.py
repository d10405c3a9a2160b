"""What groups of Machines declare: limits, options, prices; and the nodes that they make, from zero and from nodes."""

from __future__ import annotations

from typing import Any

import pytest

from support.virtual_time import run
from support.worlds.providers.cluster_api import (
    BOOT,
    CAPACITY,
    DEPLOYMENT,
    GROUP,
    LIMITS,
    MAX_SIZE,
    MIN_SIZE,
    SIZE,
    ClusterApiWorld,
)
from trellis.api.cluster_api.machines import InfrastructureTemplate, InfrastructureTemplateStatus
from trellis.api.kube.nodes import NodeSystemInfo, Taint
from trellis.base.selectors import parse_selector
from trellis.core.nodes.node_groups import GroupDevices, GroupOptions, GroupState, estimate_price
from trellis.providers.cluster_api.objects import GroupScope, TemplateKey

OPTION = f"{GROUP}/autoscaling-options-"
PRICE = "nodes.trellis.x-k8s.io/price"
REFERENCE = {
    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VmTemplate", "name": "small"}
}
KEY = TemplateKey("infrastructure.cluster.x-k8s.io", "VmTemplate", "fleet", "small")


def read(world: ClusterApiWorld, nodes: int = 0) -> GroupState:
    """The group, once it has so many nodes."""

    async def main() -> GroupState:
        if nodes:
            await world.bring_up(nodes)
        return await world.state()

    return run(main())


def problem(own: dict[str, str], **deployment: Any) -> str:
    """The problem of a group with these annotations."""
    world = ClusterApiWorld(own=own, **deployment)

    async def main() -> str:
        groups = await world.provider.groups(world.now)
        assert not groups.states
        return str(groups.problems[0].reason)

    return run(main())


def test_annotations_declare_limits_options_price_and_priority() -> None:
    own = {
        MIN_SIZE: "1",
        MAX_SIZE: "7",
        f"{OPTION}scaledownutilizationthreshold": "0.7",
        f"{OPTION}scaledowngpuutilizationthreshold": "0.2",
        f"{OPTION}scaledownunneededtime": "5m0s",
        f"{OPTION}scaledownunreadytime": "1h",
        f"{OPTION}maxnodeprovisiontime": "20m",
        PRICE: "0.25",
        "nodes.trellis.x-k8s.io/priority": "3",
    }
    group = read(ClusterApiWorld(own={**SIZE, **own})).group
    assert (group.name, group.min_size, group.max_size, group.price, group.priority) == (DEPLOYMENT, 1, 7, 0.25, 3)
    assert group.options == GroupOptions(0.7, 300.0, 3600.0, 1200.0, 0.2)


def test_without_a_price_it_is_estimated_by_the_size() -> None:
    group = read(ClusterApiWorld()).group
    assert group.price == estimate_price(group.template) > 0
    assert group.options == GroupOptions()


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ({MIN_SIZE: "1"}, f"annotation {MAX_SIZE}: must be a number of machines, but is missing"),
        ({MAX_SIZE: "1"}, f"annotation {MIN_SIZE}: must be a number of machines, but is missing"),
        ({MIN_SIZE: "-1", MAX_SIZE: "1"}, f'annotation {MIN_SIZE}: must be a number of machines, but is "-1"'),
        ({MIN_SIZE: "3", MAX_SIZE: "1"}, f"annotation {MIN_SIZE}: is 3, and must be at most the maximum of 1"),
        ({**LIMITS, PRICE: "cheap"}, f'annotation {PRICE}: must be a number, but is "cheap"'),
        ({**LIMITS, f"{OPTION}scaledownunneededtime": "1 day"}, f"annotation {OPTION}scaledownunneededtime: "),
        ({**LIMITS, f"{OPTION}scaledownunneededtime": "-1s"}, "must not be negative"),
        ({**LIMITS, f"{OPTION}scaledownutilizationthreshold": "70"}, "must be 0 to 1, but is 70"),
        ({**LIMITS, f"{OPTION}scaledowngpuutilizationthreshold": "-1"}, "must be 0 to 1, but is -1"),
        ({**LIMITS, f"{CAPACITY}labels": "zone"}, f'annotation {CAPACITY}labels: must be key=value, but is "zone"'),
        (
            {**LIMITS, f"{CAPACITY}taints": "gpu"},
            f'annotation {CAPACITY}taints: must be key=value:effect, but is "gpu"',
        ),
        ({**LIMITS, f"{CAPACITY}cpu": "four"}, f"annotation {CAPACITY}cpu: "),
        ({**LIMITS, f"{CAPACITY}memory": "-1Gi"}, 'must not be negative, but is "-1Gi"'),
    ],
)
def test_what_cannot_be_used_is_a_problem_with_object_field_and_rule(own: dict[str, str], text: str) -> None:
    found = problem({**SIZE, **own} if not any(key.startswith(CAPACITY) for key in own) else own)
    assert found.startswith(f"{DEPLOYMENT}: ")
    assert text in found


def test_a_group_whose_size_is_not_known_cannot_be_used() -> None:
    text = problem(dict(LIMITS), machine=REFERENCE)
    assert f"annotations {CAPACITY}cpu and {CAPACITY}memory: must be set" in text
    assert "VmTemplate fleet/small has no status.capacity (not found)" in text


def test_from_zero_annotations_count_before_the_infrastructure_template() -> None:
    own = {
        **LIMITS,
        f"{CAPACITY}memory": "8Gi",
        f"{CAPACITY}maxPods": "50",
        f"{CAPACITY}gpu-type": "nvidia.com/gpu",
        f"{CAPACITY}gpu-count": "2",
        f"{CAPACITY}labels": "size=small,topology.kubernetes.io/zone=zone-z",
        f"{CAPACITY}taints": "gpu=yes:NoSchedule,dedicated:NoExecute",
    }
    spec_taints = [{"key": "gpu", "value": "no", "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]
    labels = {"node-role.kubernetes.io/worker": "", "a.node.cluster.x-k8s.io/b": "c", "app": "not copied"}
    world = ClusterApiWorld(
        own=own,
        machine={**REFERENCE, "failureDomain": "zone-a", "taints": spec_taints},
        machine_labels=labels,
    )
    status = InfrastructureTemplateStatus(
        {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "50Gi"}, NodeSystemInfo(architecture="arm64")
    )
    world.templates[KEY] = InfrastructureTemplate(status=status)
    template = read(world).group.template
    assert dict(template.status.allocatable) == {
        "cpu": "4",
        "memory": "8Gi",
        "ephemeral-storage": "50Gi",
        "pods": "50",
        "nvidia.com/gpu": "2",
    }
    assert dict(template.metadata.labels) == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "a.node.cluster.x-k8s.io/b": "c",
        "size": "small",
        "topology.kubernetes.io/zone": "zone-z",
    }
    assert template.spec.taints == (
        Taint("gpu", "yes", "NoSchedule"),
        Taint("own", "", "NoSchedule"),
        Taint("dedicated", "", "NoExecute"),
    )
    assert template.status.declared_features, "a kubelet of 1.36 declares what pods with sidecars need"


def test_devices_for_claims_are_declared_by_their_driver_and_number() -> None:
    own = {
        **LIMITS,
        **SIZE,
        f"{CAPACITY}dra-driver": "gpu.example.com",
        f"{CAPACITY}gpu-type": "nvidia.com/gpu",
        f"{CAPACITY}gpu-count": "8",
    }
    group = read(ClusterApiWorld(own=own)).group
    assert group.devices == (GroupDevices("gpu.example.com", "gpu.example.com", 8),)
    assert "nvidia.com/gpu" not in group.template.status.allocatable, "with a driver there is no device plugin"
    assert f'annotation {CAPACITY}gpu-count: must be a number of at most 10000, but is "many"' in problem(
        {**own, f"{CAPACITY}gpu-count": "many"}
    )


def test_a_ready_node_without_its_gpus_does_not_hide_that_the_group_has_them() -> None:
    own = {**LIMITS, **SIZE, f"{CAPACITY}gpu-type": "nvidia.com/gpu", f"{CAPACITY}gpu-count": "2"}
    world = ClusterApiWorld(own=own)
    (node,) = run(world.bring_up(1))
    assert dict(read(world).group.template.status.allocatable)["nvidia.com/gpu"] == "2"
    world.change("nodes", node, status={"allocatable": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}})
    assert dict(read(world).group.template.status.allocatable)["nvidia.com/gpu"] == "1"


def test_a_failure_domain_is_the_zone() -> None:
    template = read(ClusterApiWorld(machine={"failureDomain": "zone-a"})).group.template
    assert template.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"


def test_ready_nodes_tell_what_the_next_ones_have() -> None:
    own = {**LIMITS, f"{CAPACITY}cpu": "64", f"{CAPACITY}memory": "1Ti"}
    world = ClusterApiWorld(own=own, machine=REFERENCE)
    first, second = run(world.bring_up(2))
    mark = {"key": "trellis.x-k8s.io/leaving", "effect": "NoSchedule"}
    shared = {"key": "from-bootstrap", "effect": "NoSchedule"}
    world.change("nodes", first, metadata={"labels": {"rack": "1", "size": "small"}}, spec={"taints": [shared, mark]})
    world.change("nodes", second, metadata={"labels": {"rack": "2", "size": "small"}}, spec={"taints": [shared]})
    world.template_reads.clear()
    group = read(world).group
    assert group.template.status.allocatable["cpu"] == "4"
    assert group.template.metadata.labels["size"] == "small"
    assert not {"rack", "kubernetes.io/hostname"} & group.template.metadata.labels.keys()
    assert group.template.spec.taints == (Taint("from-bootstrap", "", "NoSchedule"),)
    assert group.template.metadata.name == ""
    assert group.boot_seconds == BOOT
    assert not world.template_reads, "the infrastructure template is not read any more"


def test_in_a_rollout_nodes_of_the_old_template_tell_it_where_nothing_else_does() -> None:
    world = ClusterApiWorld(own=dict(LIMITS), replicas=2)
    world.now += BOOT
    world.boot()
    world.change("machinedeployments", "pool", spec={"template": {"spec": {"failureDomain": "zone-b"}}})
    world.reconcile()
    template = read(world).group.template
    assert template.status.allocatable["cpu"] == "4"
    assert template.metadata.labels["topology.kubernetes.io/zone"] == "zone-b"


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        (GroupScope(), 1),
        (GroupScope(cluster="bed"), 1),
        (GroupScope(cluster="other"), 0),
        (GroupScope(selector=parse_selector("pool=web")), 1),
        (GroupScope(selector=parse_selector("pool=batch")), 0),
        (GroupScope(group="cluster.example.com"), 0),
    ],
)
def test_groups_are_found_by_cluster_labels_and_annotations(scope: GroupScope, count: int) -> None:
    world = ClusterApiWorld(scope=scope, labels={"pool": "web"})
    world.add_deployment("fixed", own=dict(SIZE))

    async def main() -> int:
        groups = await world.provider.groups(world.now)
        return len(groups.states) + len(groups.problems)

    assert run(main()) == count
