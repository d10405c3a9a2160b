"""The state of an instance by the conditions of its NodeClaim, and the writes that a claim needs.

Karpenter deletes a claim when there is no machine for it, when it cannot be launched for five minutes, and when its
node has not registered after fifteen. Such a claim would be gone before anything has read why, and would be ordered
again at once. So a new claim has a finalizer. It keeps a deleted claim until the failure has been reported and
released. A node that has registered cannot fail to start any more, and its claim loses the finalizer.

A claim that is released before that gets an annotation, which tells its deletion from one by Karpenter:

| deleted | finalizer | annotation | the instance |
|---|---|---|---|
| no | | no | is ordered, or runs |
| no | no | yes | is leaving; its deletion was interrupted and follows |
| yes | yes | no | has failed |
| yes | no | | is leaving |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL, NODE_POOL_LABEL
from trellis.api.kube.machines.node_claims import NodeClaim
from trellis.api.kube.meta import Condition
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import Instance, InstanceState
from trellis.kube.resources import NODE_CLAIMS
from trellis.kube.write.actions import Action, DeleteObject, PatchObject, build_target
from trellis.kube.write.patches import merge_patch

REPORT_FINALIZER: Final = "nodes.trellis.x-k8s.io/report-failure"
RELEASED_ANNOTATION: Final = "trellis.x-k8s.io/released"

LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"

_POOL_KIND: Final = "NodePool"
# Reasons of a condition that is not true yet, and has not failed either.
_AWAITING: Final = ("", "AwaitingReconciliation")
# After this, a failure of a group that is not declared is of no interest to any other process either.
_ABANDONED_SECONDS: Final = 300.0
# After this without any condition, Karpenter will not take up a claim: a restart of Karpenter is shorter.
_IGNORED_SECONDS: Final = 300.0

CLAIM_WITHOUT_MACHINE = Reason(
    "NodeClaimWithoutMachine",
    "A NodeClaim was deleted before a machine was launched. Karpenter does so if there is no capacity, and if the node "
    "class does not exist or is not ready.",
    Severity.WARNING,
)
CLAIM_NOT_LAUNCHED = Reason(
    "NodeClaimNotLaunched", "Karpenter could not launch a machine for a NodeClaim.", Severity.WARNING
)
CLAIM_NOT_REGISTERED = Reason(
    "NodeClaimNotRegistered",
    "Karpenter launched a machine for a NodeClaim, and its node did not register in time.",
    Severity.WARNING,
)

CLAIM_IGNORED = Reason(
    "NodeClaimIgnored",
    "Karpenter has not taken up a NodeClaim: the kind of its node class is not Karpenter's, or Karpenter does not run.",
    Severity.WARNING,
)


def find_group(claim: NodeClaim) -> str:
    """The group of a claim; empty for claims of Karpenter's own NodePools, whatever labels these have."""
    metadata = claim.metadata
    if NODE_POOL_LABEL in metadata.labels or any(owner.kind == _POOL_KIND for owner in metadata.owner_references):
        return ""
    return metadata.labels.get(CLAIM_GROUP_LABEL, "")


def build_instance(claim: NodeClaim, node: str, now: float, launch_timeout: float) -> Instance:
    """A claim as an instance of its group, whose id is its name; `node` is the name of its Node, if there is one."""
    name = claim.metadata.name
    created, deleted = _created_at(claim), claim.metadata.deletion_timestamp
    if deleted is not None:
        failure = find_failure(claim)
        state = InstanceState.LEAVING if failure is None else InstanceState.FAILED
        return Instance(name, state, deleted.timestamp(), node, failure)
    if _is_released(claim):
        return Instance(name, InstanceState.LEAVING, created, node)
    if claim.is_true(INITIALIZED):
        return Instance(name, InstanceState.RUNNING, _since(claim.find_condition(INITIALIZED), created), node)
    if not claim.status.conditions and now - created >= _IGNORED_SECONDS:
        return Instance(name, InstanceState.FAILED, created + _IGNORED_SECONDS, node, DetailedReason(CLAIM_IGNORED))
    launched = claim.find_condition(LAUNCHED)
    if _has_failed(launched) and now - created >= launch_timeout:
        return Instance(name, InstanceState.FAILED, created + launch_timeout, node, _describe_launch(launched))
    registered = claim.find_condition(REGISTERED)
    if registered is not None and registered.status == "False":
        error = DetailedReason(CLAIM_NOT_REGISTERED, _describe(registered))
        return Instance(name, InstanceState.FAILED, _since(registered, created), node, error)
    return Instance(name, InstanceState.ORDERED, created, node)


def find_failure(claim: NodeClaim) -> DetailedReason | None:
    """Why Karpenter deleted a claim, as far as its conditions tell; None if it is not one that failed."""
    if REPORT_FINALIZER not in claim.metadata.finalizers or claim.is_true(REGISTERED) or _is_released(claim):
        return None
    if claim.is_true(LAUNCHED):
        return DetailedReason(CLAIM_NOT_REGISTERED, _describe(claim.find_condition(REGISTERED)))
    launched = claim.find_condition(LAUNCHED)
    if _has_failed(launched):
        return _describe_launch(launched)
    text = (
        "deleted before a machine was launched: no capacity, or its node class does not exist or is not ready; "
        "its Events have the cause"
    )
    return DetailedReason(CLAIM_WITHOUT_MACHINE, text)


def build_release(claim: NodeClaim) -> tuple[Action | None, Action | None]:
    """The writes that release a claim: the first before the second, and None if it is not needed.

    Each is refused if the claim has been replaced, and the first also if it has changed.
    """
    mark = _without_finalizer(claim, released=True) if REPORT_FINALIZER in claim.metadata.finalizers else None
    if claim.metadata.deletion_timestamp is not None:
        return mark, None
    return mark, DeleteObject(build_target(NODE_CLAIMS, claim, with_version=False))


def next_action(claim: NodeClaim, now: float, *, declared: bool) -> Action | float | None:
    """The write that a claim needs now, or when it needs one; None if it needs none."""
    deleted, released = claim.metadata.deletion_timestamp, _is_released(claim)
    if REPORT_FINALIZER not in claim.metadata.finalizers:
        if released and deleted is None:
            return DeleteObject(build_target(NODE_CLAIMS, claim, with_version=False))
        return None
    if released or claim.is_true(REGISTERED):
        return _without_finalizer(claim)
    if deleted is None or declared:
        return None
    abandoned_at = deleted.timestamp() + _ABANDONED_SECONDS
    return _without_finalizer(claim) if now >= abandoned_at else abandoned_at


def list_claims_by_group(claims: Iterator[NodeClaim]) -> dict[str, list[NodeClaim]]:
    """The claims that belong to groups, by group."""
    members: dict[str, list[NodeClaim]] = {}
    for claim in claims:
        if group := find_group(claim):
            members.setdefault(group, []).append(claim)
    return members


def _without_finalizer(claim: NodeClaim, *, released: bool = False) -> Action:
    """Remove the finalizer; the list is replaced as a whole, which is correct for this version of the claim only."""
    metadata: dict[str, Any] = {"finalizers": [name for name in claim.metadata.finalizers if name != REPORT_FINALIZER]}
    if released:
        metadata["annotations"] = {RELEASED_ANNOTATION: "true"}
    return PatchObject(build_target(NODE_CLAIMS, claim), merge_patch({"metadata": metadata}))


def _is_released(claim: NodeClaim) -> bool:
    return RELEASED_ANNOTATION in claim.metadata.annotations


def _has_failed(condition: Condition | None) -> bool:
    return condition is not None and condition.status != "True" and condition.reason not in _AWAITING


def _describe_launch(launched: Condition | None) -> DetailedReason:
    return DetailedReason(CLAIM_NOT_LAUNCHED, _describe(launched))


def _describe(condition: Condition | None) -> str:
    if condition is None:
        return "Karpenter gives no reason"
    return ": ".join(part for part in (condition.reason, condition.message) if part) or "Karpenter gives no reason"


def _created_at(claim: NodeClaim) -> float:
    created = claim.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def _since(condition: Condition | None, otherwise: float) -> float:
    moment = condition.last_transition_time if condition is not None else None
    return moment.timestamp() if moment is not None else otherwise
