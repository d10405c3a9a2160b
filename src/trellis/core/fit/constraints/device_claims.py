"""What the claims of a pod request of a node: devices by driver and count, and the nodes of allocated devices.

A claim is modelled if it requests a number of devices of a device class without further conditions. Which devices a
class selects is an expression (CEL) that is not evaluated: node groups name the classes of their devices, and the
driver of each. Devices are then counted by driver, so that those of two classes of one driver are one stock.

A claim that is allocated needs no more devices, and its pod the nodes that can use them. Other claims are not modelled,
for a reason that names the claim and the rule. What is not known must not order nodes: the pod might not fit on them,
and nodes would be ordered for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.machines.devices import (
    EXACT_COUNT,
    DeviceAllocation,
    DeviceClaim,
    DeviceClaimSpec,
    DeviceClaimTemplate,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceSlice,
)
from trellis.api.kube.placement import PodResourceClaim
from trellis.api.kube.pods import Pod
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.fit.constraints.node_affinity import NodeTerm, read_node_term
from trellis.core.fit.devices import build_driver_resource

RESOURCE_CLAIMS_NOT_MODELLED = Reason(
    "ResourceClaimsNotModelled",
    "A resource claim of the pod is not modelled, so it is not known on which nodes the pod fits.",
    Severity.WARNING,
)

ClaimKey: TypeAlias = tuple[str, str]
# The driver of each device class; empty for a class that is declared with several.
ClassDrivers: TypeAlias = Mapping[str, str]


class DeviceObjects(msgspec.Struct, frozen=True):
    """All claims and templates by namespace and name, and the published devices by the name of their slice.

    They are not `known` where the API is not served or may not be read.
    """

    known: bool = True
    claims: Mapping[ClaimKey, DeviceClaim] = {}
    templates: Mapping[ClaimKey, DeviceClaimTemplate] = {}
    slices: Mapping[str, ResourceSlice] = {}


UNKNOWN_DEVICES: Final = DeviceObjects(known=False)


class DeviceDemand(msgspec.Struct, frozen=True):
    """What claims request of a node: amounts of drivers' devices, and terms of which one must hold, per allocation."""

    amounts: tuple[tuple[str, int], ...] = ()
    allocations: tuple[tuple[NodeTerm, ...], ...] = ()


def read_pod_claims(
    pod: Pod, objects: DeviceObjects, drivers: ClassDrivers, shared: Container[ClaimKey]
) -> DeviceDemand | DetailedReason:
    """What the claims of a pod without a node request; `shared` are claims that several pods name."""
    specs: list[tuple[str, DeviceClaimSpec]] = []
    allocations: list[tuple[NodeTerm, ...]] = []
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for reference in pod.spec.resource_claims:
        found = _find_claim(reference, pod.metadata.namespace, objects, made)
        if isinstance(found, DetailedReason):
            return found
        if isinstance(found, DeviceClaim) and found.status.allocation is not None:
            allocations += _read_allocation(found.status.allocation)
            continue
        if reference.resource_claim_name and (pod.metadata.namespace, reference.resource_claim_name) in shared:
            return _build_problem(reference, "several pods use it")
        if found is not None:
            specs.append((reference.name, found.spec if isinstance(found, DeviceClaim) else found.spec.spec))
    return _build_demand(specs, allocations, drivers)


def read_replacement_claims(pod: Pod, objects: DeviceObjects, drivers: ClassDrivers) -> DeviceDemand | DetailedReason:
    """What the claims of a pod that replaces this one request: it gets new claims of templates, and the same others."""
    allocations: list[tuple[NodeTerm, ...]] = []
    own = []
    for reference in pod.spec.resource_claims:
        if reference.resource_claim_template_name:
            own.append(reference)
            continue
        claim = objects.claims.get((pod.metadata.namespace, reference.resource_claim_name))
        allocation = claim.status.allocation if claim is not None else None
        if allocation is None or allocation.node_selector is not None:
            return _build_problem(reference, "it is not made from a template, and its devices are on this node")
        allocations += _read_allocation(allocation)
    of_templates = read_template_claims(own, pod.metadata.namespace, objects, drivers)
    if isinstance(of_templates, DetailedReason):
        return of_templates
    return DeviceDemand(of_templates.amounts, tuple(allocations))


def read_template_claims(
    references: Iterable[PodResourceClaim], namespace: str, objects: DeviceObjects, drivers: ClassDrivers
) -> DeviceDemand | DetailedReason:
    """What the claims of a new pod request, which are made from templates."""
    specs: list[tuple[str, DeviceClaimSpec]] = []
    for reference in references:
        if not reference.resource_claim_template_name:
            return _build_problem(reference, "it is not made from a template, so that several pods would use it")
        found = _find_claim(reference, namespace, objects, {})
        if isinstance(found, DetailedReason):
            return found
        if isinstance(found, DeviceClaimTemplate):
            specs.append((reference.name, found.spec.spec))
    return _build_demand(specs, [], drivers)


def _find_claim(
    reference: PodResourceClaim, namespace: str, objects: DeviceObjects, made: Mapping[str, str]
) -> DeviceClaim | DeviceClaimTemplate | DetailedReason | None:
    """The claim of a pod, or the template that it will be made from; None if the pod needs no claim."""
    template = reference.resource_claim_template_name
    if template and reference.name not in made:
        return objects.templates.get((namespace, template)) or _build_problem(
            reference, f"the ResourceClaimTemplate {template} does not exist"
        )
    name = made[reference.name] if template else reference.resource_claim_name
    if not name:
        return None
    return objects.claims.get((namespace, name)) or _build_problem(
        reference, f"the ResourceClaim {name} does not exist"
    )


def _build_demand(
    specs: Iterable[tuple[str, DeviceClaimSpec]], allocations: Iterable[tuple[NodeTerm, ...]], drivers: ClassDrivers
) -> DeviceDemand | DetailedReason:
    counts: Counter[str] = Counter()
    for name, spec in specs:
        for request in spec.devices.requests:
            problem = _find_problem(request, drivers)
            if problem is not None:
                return _build_reason(name, f"request {request.name}: {problem}")
            exact = request.exactly or ExactDeviceRequest()
            counts[build_driver_resource(drivers[exact.device_class_name])] += max(exact.count, 1)
        if spec.devices.constraints:
            return _build_reason(name, "it has constraints on what its devices have in common")
    return DeviceDemand(tuple(sorted(counts.items())), tuple(allocations))


def _find_problem(request: DeviceRequest, drivers: ClassDrivers) -> str | None:
    """Why a request cannot be counted by driver; None if it can."""
    exact = request.exactly
    if exact is None:
        return "it has alternatives (firstAvailable)" if request.first_available else "it is of an unknown kind"
    driver = drivers.get(exact.device_class_name)
    conditions = (
        (exact.selectors, "it has selectors, which are not evaluated"),
        (exact.allocation_mode != EXACT_COUNT, f"its allocationMode is {exact.allocation_mode}"),
        (exact.admin_access, "it has admin access to devices of others"),
        (exact.tolerations, "it tolerates taints of devices"),
        (exact.capacity is not None, "it requests a part of a device (capacity)"),
        (driver is None, f"no node group declares devices of the class {exact.device_class_name}"),
        (driver == "", f"node groups declare the class {exact.device_class_name} with several drivers"),
    )
    return next((problem for applies, problem in conditions if applies), None)


def _read_allocation(allocation: DeviceAllocation) -> list[tuple[NodeTerm, ...]]:
    """The terms of the nodes that can use the devices, of which one must hold; none if all nodes can."""
    selector = allocation.node_selector
    if selector is None:
        return []
    read = (read_node_term(term) for term in selector.node_selector_terms)
    return [tuple(term for term in read if term is not None)]


def _build_problem(reference: PodResourceClaim, problem: str) -> DetailedReason:
    return _build_reason(reference.name, problem)


def _build_reason(claim: str, problem: str) -> DetailedReason:
    return DetailedReason(RESOURCE_CLAIMS_NOT_MODELLED, f"claim {claim}: {problem}")
