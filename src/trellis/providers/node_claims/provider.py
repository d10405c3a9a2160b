"""The provider karpenter: orders machines by standalone NodeClaims and releases them by deleting the claims.

Karpenter launches a machine for any NodeClaim, by its cloud provider, and drains and terminates it when the claim is
deleted. It replaces and consolidates nodes of its NodePools only, and leaves claims of no NodePool, such as these, as
they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

import msgspec

from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.machines.node_claims import NodeClaim
from trellis.api.kube.nodes import Node
from trellis.api.registry import CLAIM_NODE_GROUP
from trellis.base.errors import TrellisError
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import GroupState, InstanceState, find_order_problem, find_release_problems
from trellis.kube.resources import NODE_CLAIMS
from trellis.kube.write.actions import Action, CreateObject, Target
from trellis.providers.declared.declarations import (
    DeclarationReader,
    Declarations,
    build_unknown_group,
    find_undeclared_groups,
)
from trellis.providers.declared.orders import build_steps, generate_names
from trellis.providers.node_claims.declarations import DeclaredClaimGroup, build_claim, build_claim_group
from trellis.providers.node_claims.instances import (
    build_instance,
    build_release,
    list_claims_by_group,
    next_action,
)
from trellis.providers.node_claims.settings import CLAIM_CONFIG_MAP, NodeClaimSettings
from trellis.providers.protocol import Groups, Ordered, Released, Tended

NODE_CLAIMS_UNREADABLE = Reason(
    "NodeClaimsUnreadable",
    "The cluster does not serve NodeClaims, or RBAC does not allow to read them.",
    Severity.WARNING,
)


class UnreadableNodeClaims(TrellisError):
    """NodeClaims are not served, or may not be read: it is not known which there are."""


class ClaimObjects(msgspec.Struct, frozen=True):
    """The objects that the provider reads: the ConfigMap with the groups, if it exists, all nodes and all NodeClaims.

    `claims` is None if they cannot be read, which is not the same as none.
    """

    config: ConfigMap | None
    nodes: Collection[Node]
    claims: Collection[NodeClaim] | None


class NodeClaimProvider:
    """Groups of NodeClaims. Each call calls `read_objects` once, which may return a snapshot."""

    name: str = "karpenter"

    def __init__(
        self,
        read_objects: Callable[[], ClaimObjects],
        where: str = CLAIM_CONFIG_MAP,
        launch_timeout: float = NodeClaimSettings().karpenter_launch_timeout.total_seconds(),
    ) -> None:
        self._read_objects = read_objects
        self._launch_timeout = launch_timeout
        self._declarations = DeclarationReader(CLAIM_NODE_GROUP, where, build_claim_group)

    async def groups(self, now: float, /) -> Groups:
        """Each group with its claims; claims of undeclared groups are reported as problems."""
        view = await self._build_view()
        if view is None:
            raise UnreadableNodeClaims(_UNREADABLE)
        return await asyncio.to_thread(_build_groups, view, now)

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """Create the missing claims, with names derived from the existing ones."""
        view = await self._build_view()
        if view is None:
            return Ordered(error=DetailedReason(NODE_CLAIMS_UNREADABLE))
        declared = view.declared.groups.get(group)
        if declared is None:
            return Ordered(error=build_unknown_group(group))
        state = view.build_state(group, now)
        refused = find_order_problem(state, target)
        if refused is not None:
            return Ordered(error=refused)
        missing = max(0, target - state.target)
        names = tuple(islice(generate_names(group, {claim.metadata.name for claim in view.claims}), missing))
        creations = (CreateObject(Target(NODE_CLAIMS, name), build_claim(declared.document, name)) for name in names)
        return Ordered(names, build_steps(creations))

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Delete claims; Karpenter terminates their machines."""
        view = await self._build_view()
        if view is None:
            return Released(refused=dict.fromkeys(instances, DetailedReason(NODE_CLAIMS_UNREADABLE)))
        if group not in view.declared.groups:
            return Released(refused=dict.fromkeys(instances, build_unknown_group(group)))
        state = view.build_state(group, now)
        refused = find_release_problems(state, instances)
        released = tuple(instance for instance in dict.fromkeys(instances) if instance not in refused)
        leaving = {instance.id for instance in state.instances if instance.state is InstanceState.LEAVING}
        by_name = {claim.metadata.name: claim for claim in view.members.get(group, ())}
        writes = [build_release(by_name[instance]) for instance in released if instance not in leaving]
        marks = (mark for mark, _ in writes if mark is not None)
        deletions = (deletion for _, deletion in writes if deletion is not None)
        return Released(released, build_steps(marks, deletions), refused)

    async def tend(self, now: float, /) -> Tended:
        """Remove the finalizer of claims whose nodes have registered, and complete interrupted releases."""
        view = await self._build_view()
        return Tended() if view is None else await asyncio.to_thread(_build_tended, view, now)

    async def _build_view(self) -> _ClaimView | None:
        objects = self._read_objects()
        if objects.claims is None:
            return None
        declared = await self._declarations.read(objects.config)
        members = list_claims_by_group(iter(objects.claims))
        return _ClaimView(declared, objects.claims, members, _name_nodes(members, objects.nodes), self._launch_timeout)


class _ClaimView(msgspec.Struct, frozen=True):
    """The groups and claims at one moment; `node_names` are those of nodes by the names of their claims."""

    declared: Declarations[DeclaredClaimGroup]
    claims: Collection[NodeClaim]
    members: dict[str, list[NodeClaim]]
    node_names: Mapping[str, str]
    launch_timeout: float

    def build_state(self, group: str, now: float) -> GroupState:
        instances = tuple(
            build_instance(claim, self.node_names.get(claim.metadata.name, ""), now, self.launch_timeout)
            for claim in self.members.get(group, ())
        )
        target = sum(instance.state is not InstanceState.LEAVING for instance in instances)
        return GroupState(self.declared.groups[group].group, target, instances)


_UNREADABLE = f"{NODE_CLAIMS.full_name} is not served, or RBAC does not allow to read it"


def _name_nodes(members: Mapping[str, Sequence[NodeClaim]], nodes: Collection[Node]) -> dict[str, str]:
    """The names of nodes by those of their claims. Before Karpenter has named it, a node is known by its machine."""
    claims = [claim for group in members.values() for claim in group]
    names = {claim.metadata.name: claim.status.node_name for claim in claims if claim.status.node_name}
    unnamed = {
        claim.status.provider_id: claim.metadata.name
        for claim in claims
        if claim.status.provider_id and not claim.status.node_name
    }
    if unnamed:
        names |= {
            unnamed[node.spec.provider_id]: node.metadata.name for node in nodes if node.spec.provider_id in unnamed
        }
    return names


def _build_groups(view: _ClaimView, now: float) -> Groups:
    states = tuple(view.build_state(name, now) for name in view.declared.groups)
    undeclared = find_undeclared_groups(view.declared, view.members, "NodeClaim")
    return Groups(states, (*view.declared.problems, *undeclared))


def _build_tended(view: _ClaimView, now: float) -> Tended:
    needs = [
        next_action(claim, now, declared=group in view.declared.groups)
        for group, claims in view.members.items()
        for claim in claims
    ]
    later = [need for need in needs if isinstance(need, float)]
    actions: list[Action] = [need for need in needs if need is not None and not isinstance(need, float)]
    return Tended(build_steps(actions), min(later, default=None))
