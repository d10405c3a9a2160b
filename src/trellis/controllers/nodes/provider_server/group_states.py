"""The states of all groups for the calls of clients: fresh ones after each change, and not read for every call.

A client asks for the size and the instances of each group by a call of its own. They share what was read less than a
second ago, unless something has changed since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.provider_client import PROVIDER_FAILED, PROVIDER_TIMED_OUT, ProviderClient
from trellis.core.nodes.node_groups import GroupState, Instance
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus
from trellis.providers.protocol import Groups
from trellis.runtime.telemetry.logs import Logger

_MAX_AGE_SECONDS: Final = 1.0
_SILENT: Final = (PROVIDER_TIMED_OUT, PROVIDER_FAILED)

_log: Final = Logger("trellis.node-provider-server")


class MemberInstance(msgspec.Struct, frozen=True):
    """An instance, its group, and the provider id of its node, by which clients know it."""

    group: GroupState
    instance: Instance
    provider_id: str


class KnownGroups(msgspec.Struct, frozen=True):
    """All groups by name, their instances, and the instances by the provider ids and the names of their nodes."""

    states: Mapping[str, GroupState] = MappingProxyType({})
    members: Mapping[str, tuple[MemberInstance, ...]] = MappingProxyType({})
    by_provider_id: Mapping[str, MemberInstance] = MappingProxyType({})
    by_node: Mapping[str, MemberInstance] = MappingProxyType({})


def index_groups(states: Iterable[GroupState], nodes: Iterable[Node]) -> KnownGroups:
    """The groups with their instances; one whose node has no provider id is known by its own id."""
    provider_ids = {node.metadata.name: node.spec.provider_id for node in nodes}
    by_group = {
        state.group.name: tuple(
            MemberInstance(state, instance, provider_ids.get(instance.node, "") or instance.id)
            for instance in state.instances
        )
        for state in states
    }
    members = [member for group in by_group.values() for member in group]
    return KnownGroups(
        {state.group.name: state for state in states},
        by_group,
        {member.provider_id: member for member in members},
        {member.instance.node: member for member in members if member.instance.node},
    )


class GroupStates:
    """Reads the groups of the providers. `find_problem` says why what is known cannot be trusted."""

    def __init__(
        self,
        provider_client: ProviderClient,
        list_nodes: Callable[[], Collection[Node]],
        now: Callable[[], float],
        find_problem: Callable[[], str | None],
    ) -> None:
        self._provider_client = provider_client
        self._list_nodes = list_nodes
        self._now = now
        self._find_problem = find_problem
        self._lock = asyncio.Lock()
        self._known = KnownGroups()
        self._read_at: float | None = None
        self._problems: frozenset[str] = frozenset()
        # Counts changes: what was read before the last one is old.
        self._change_count = 0
        self._read_count = -1
        self.problem: str | None = None
        """Why the last call got no groups."""

    def forget(self) -> None:
        """Something has changed: the next call reads again."""
        self._change_count += 1

    @property
    def count(self) -> int:
        """The number of groups that were read last."""
        return len(self._known.states)

    async def read(self) -> KnownGroups:
        """All groups. Raises `CallFailed` where no provider answers: that is no list without groups."""
        stale = self._find_problem()
        if stale is not None:
            raise CallFailed("groups", CallStatus.UNAVAILABLE, stale)
        async with self._lock:
            age = self._now() - self._read_at if self._read_at is not None else _MAX_AGE_SECONDS
            if self._read_count != self._change_count or not 0 <= age < _MAX_AGE_SECONDS:
                await self._read_providers()
            return self._known

    async def find(self, group: str) -> GroupState:
        """The state of a group; raises `CallFailed` if there is none."""
        state = (await self.read()).states.get(group)
        if state is None:
            raise CallFailed("groups", CallStatus.NOT_FOUND, f"there is no node group {group}")
        return state

    async def _read_providers(self) -> None:
        count, now = self._change_count, self._now()
        groups = await self._provider_client.groups(now)
        silence = _find_silence(groups)
        if groups is None or silence is not None:
            self.problem = str(silence or "no provider answers")
            raise CallFailed("groups", CallStatus.UNAVAILABLE, self.problem)
        self.problem = None
        self._known = index_groups(groups.states, self._list_nodes())
        self._read_at, self._read_count = now, count
        self._log_problems(groups)

    def _log_problems(self, groups: Groups) -> None:
        """Log a problem when it appears, and not again while it lasts."""
        problems = {str(problem.reason): problem for problem in groups.problems}
        for text, problem in problems.items():
            if text not in self._problems:
                _log.warning("node group left out", group=problem.group, reason=problem.reason.reason, why=text)
        self._problems = frozenset(problems)


def _find_silence(groups: Groups | None) -> DetailedReason | None:
    """Why there are no groups, if that is because a provider does not answer."""
    if groups is None or groups.states:
        return None
    return next((problem.reason for problem in groups.problems if problem.reason.reason in _SILENT), None)
