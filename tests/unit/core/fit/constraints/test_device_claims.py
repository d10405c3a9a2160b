"""What the resource claims of a pod request of a node, and what is not modelled."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.device_claims import (
    GPU_DRIVER,
    a_claim,
    a_claim_template,
    a_request,
    collect_devices,
    named,
    of_template,
)
from support.worlds.nodes import a_pod
from trellis.api.kube.pods import Pod
from trellis.base.reasons import DetailedReason
from trellis.core.fit.constraints.device_claims import (
    RESOURCE_CLAIMS_NOT_MODELLED,
    DeviceDemand,
    DeviceObjects,
    read_pod_claims,
    read_replacement_claims,
)
from trellis.core.fit.constraints.node_affinity import NodeNameRule, NodeTerm

DRIVERS = {GPU_DRIVER: GPU_DRIVER, "mig.example.com": GPU_DRIVER, "nic": "nic.example.com", "twice": ""}
GPU = f"resource.k8s.io/{GPU_DRIVER}"
NIC = "resource.k8s.io/nic.example.com"


def a_pod_with_claim_made(claim: str) -> Pod:
    """A pod whose claim has been made from its template."""
    statuses = [{"name": "gpu", "resourceClaimName": claim}] if claim else [{"name": "gpu"}]
    return a_pod("web", **of_template("one"), status={"phase": "Pending", "resourceClaimStatuses": statuses})


def read(pod: Pod, objects: DeviceObjects, shared: tuple[tuple[str, str], ...] = ()) -> DeviceDemand:
    demand = read_pod_claims(pod, objects, DRIVERS, shared)
    assert isinstance(demand, DeviceDemand), demand
    return demand


def problem(pod: Pod, objects: DeviceObjects, shared: tuple[tuple[str, str], ...] = ()) -> str:
    found = read_pod_claims(pod, objects, DRIVERS, shared)
    assert isinstance(found, DetailedReason)
    assert found.reason is RESOURCE_CLAIMS_NOT_MODELLED
    return found.details


def test_devices_of_a_template_are_counted_by_driver() -> None:
    requests = (a_request(2), a_request(1, "mig.example.com", "mig"), a_request(3, "nic", "nic"))
    demand = read(a_pod("web", **of_template("one")), collect_devices(a_claim_template("one", *requests)))
    assert demand.amounts == ((GPU, 3), (NIC, 3))


def test_the_claim_that_was_made_for_a_pod_counts_before_its_template() -> None:
    objects = collect_devices(a_claim_template("one"), a_claim("web-1", a_request(2)))
    assert read(a_pod_with_claim_made("web-1"), objects).amounts == ((GPU, 2),)
    assert read(a_pod_with_claim_made(""), objects).amounts == ()


def test_an_allocated_claim_needs_no_more_devices_and_binds_the_pod_to_its_node() -> None:
    demand = read(a_pod("web", **named("mine")), collect_devices(a_claim("mine", devices={"n1": ["gpu-0"]})))
    assert demand == DeviceDemand((), ((NodeTerm(names=(NodeNameRule("n1", must_match=True),)),),))


def test_devices_that_all_nodes_can_use_bind_the_pod_to_none() -> None:
    objects = collect_devices(a_claim("mine", devices={"n1": ["gpu-0"]}, pinned=False))
    assert read(a_pod("web", **named("mine")), objects) == DeviceDemand()


def test_a_claim_of_several_pods_is_modelled_once_it_is_allocated() -> None:
    shared = (("default", "ours"),)
    pod = a_pod("web", **named("ours"))
    assert problem(pod, collect_devices(a_claim("ours")), shared) == "claim gpu: several pods use it"
    assert read(pod, collect_devices(a_claim("ours", devices={"n1": ["gpu-0"]})), shared).allocations


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (a_request(selectors=[{"cel": {"expression": "true"}}]), "it has selectors, which are not evaluated"),
        (a_request(allocationMode="All"), "its allocationMode is All"),
        (a_request(adminAccess=True), "it has admin access to devices of others"),
        (a_request(tolerations=[{"operator": "Exists"}]), "it tolerates taints of devices"),
        (a_request(capacity={"requests": {"memory": "1Gi"}}), "it requests a part of a device (capacity)"),
        (a_request(device_class="tpu"), "no node group declares devices of the class tpu"),
        (a_request(device_class="twice"), "node groups declare the class twice with several drivers"),
        ({"name": "gpu", "firstAvailable": [{"name": "a"}]}, "it has alternatives (firstAvailable)"),
        ({"name": "gpu"}, "it is of an unknown kind"),
    ],
)
def test_other_requests_are_not_modelled(request_: dict[str, Any], expected: str) -> None:
    objects = collect_devices(a_claim_template("one", request_))
    assert problem(a_pod("web", **of_template("one")), objects) == f"claim gpu: request gpu: {expected}"


def test_constraints_between_devices_are_not_modelled() -> None:
    objects = collect_devices(a_claim_template("one", a_request(2), constraints=[{"matchAttribute": "numa"}]))
    assert "constraints" in problem(a_pod("web", **of_template("one")), objects)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod("web", **of_template("none")), "claim gpu: the ResourceClaimTemplate none does not exist"),
        (a_pod("web", **named("none")), "claim gpu: the ResourceClaim none does not exist"),
        (a_pod_with_claim_made("none"), "claim gpu: the ResourceClaim none does not exist"),
    ],
)
def test_a_missing_claim_is_not_modelled(pod: Pod, expected: str) -> None:
    assert problem(pod, DeviceObjects()) == expected


def test_a_replacement_gets_new_claims_of_templates_and_keeps_the_others() -> None:
    objects = collect_devices(
        a_claim_template("one", a_request(2)),
        a_claim("web-1", a_request(2), devices={"n1": ["gpu-0", "gpu-1"]}),
        a_claim("fixed", devices={"n1": ["gpu-2"]}),
        a_claim("anywhere", devices={"n1": ["nic-0"]}, pinned=False),
    )
    moved = read_replacement_claims(a_pod_with_claim_made("web-1"), objects, DRIVERS)
    assert moved == DeviceDemand(((GPU, 2),))
    assert read_replacement_claims(a_pod("web", **named("anywhere")), objects, DRIVERS) == DeviceDemand()
    kept = read_replacement_claims(a_pod("web", **named("fixed")), objects, DRIVERS)
    assert isinstance(kept, DetailedReason)
