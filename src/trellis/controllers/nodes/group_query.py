"""Asks node providers once for their groups, without a right to change anything: for explanations and dumps."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import Forbidden, InvalidInput, KubeError, TrellisError
from trellis.controllers.nodes.group_settings import NodeGroupFlags, NodeGroupSettings
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.settings import KWOK
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.core.explain.component_decisions.reported_groups import ReportedGroups
from trellis.core.nodes.node_groups import GroupState, Instance
from trellis.kube.client import Client
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.providers.plugins import OpenProviders, ProviderContext, open_providers
from trellis.providers.protocol import Groups
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.tasks import cancel_all
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.sources.cluster.collector import QueryGroups

_COMPONENT: Final = "nodes"
# How often it is checked whether what a provider follows can be read at all.
_CHECK_SECONDS: Final = 0.1

_log: Final = Logger("trellis.nodes")


class GroupAnswers(msgspec.Struct, frozen=True):
    """The groups of all providers that answered, and why the others did not."""

    groups: ReportedGroups
    failures: tuple[str, ...] = ()


def build_query(flags: NodeGroupFlags) -> QueryGroups:
    """What asks the providers of a command line, or those of the autoscaler among the components of a cluster."""

    async def query(
        client: Client, components: Sequence[DumpedComponent], nodes: Collection[Node]
    ) -> tuple[ReportedGroups, Sequence[str]] | None:
        component = next((item for item in components if item.component == _COMPONENT), None)
        deployed = component.flags if component is not None else {}
        try:
            settings = flags.load(deployed)
        except InvalidInput as error:
            return ReportedGroups(()), (f"the flags of {_COMPONENT}: {error}",)
        names = settings.provider.cloud_provider
        if set(names) == {KWOK}:
            return None
        unreadable = flags.list_unreadable(deployed, names)
        asked = tuple(name for name in names if name not in unreadable)
        provider = msgspec.structs.replace(settings.provider, cloud_provider=asked)
        asking = msgspec.structs.replace(settings, provider=provider)
        answers = await query_groups(client, asking, nodes, time.time())
        groups = msgspec.structs.replace(answers.groups, providers=names)
        return groups, (*unreadable.values(), *answers.failures)

    return query


async def query_groups(
    client: Client,
    settings: NodeGroupSettings,
    nodes: Collection[Node],
    now: float,
    open_all: OpenProviders = open_providers,
) -> GroupAnswers:
    """Ask all providers but kwok, whose groups are objects of the cluster; `nodes` are all nodes."""
    names = tuple(dict.fromkeys(settings.provider.cloud_provider))
    queries = [_ProviderQuery(client, settings, nodes, open_all) for _ in names]
    answers = await asyncio.gather(
        *(query.run(name, now) for query, name in zip(queries, names, strict=True) if name != KWOK)
    )
    groups = [answer for answer in answers if isinstance(answer, Groups)]
    states: dict[str, GroupState] = {}
    for state in (state for answer in groups for state in answer.states):
        states.setdefault(state.group.name, state)
    problems = tuple((problem.group, problem.reason) for answer in groups for problem in answer.problems)
    reported = ReportedGroups(names, tuple(_name_nodes(states.values(), nodes)), problems)
    return GroupAnswers(reported, tuple(answer for answer in answers if isinstance(answer, str)))


class _ProviderQuery:
    """One provider, opened as by the autoscaler, with informers of its own, and a writer that writes nothing."""

    def __init__(
        self, client: Client, settings: NodeGroupSettings, nodes: Collection[Node], open_all: OpenProviders
    ) -> None:
        self._client = client
        self._settings = settings
        self._nodes = nodes
        self._open_all = open_all
        self._patience = settings.provider.provider_timeout.total_seconds()
        self._metrics = Metrics(NODE_METRICS, about_process=False)

    async def run(self, name: str, now: float) -> Groups | str:
        """The groups of a provider, or why it did not answer."""
        informers = Informers(self._client, UnreadableKinds(self._metrics, _log), draw=random.random)
        try:
            async with AsyncExitStack() as stack:
                context = await self._build_context(informers, now)
                options = self._settings.provider.options()
                running = await stack.enter_async_context(self._open_all([name], context, options))
                if any(True for _ in informers):
                    following = asyncio.create_task(informers.run())
                    stack.push_async_callback(cancel_all, [following])
                    problem = await self._wait_until_synced(informers)
                    if problem is not None:
                        return f"{name}: {problem}"
                provider_client = ProviderClient(running, self._patience, self._metrics)
                stack.push_async_callback(provider_client.close)
                groups = await provider_client.groups(now)
                return groups if groups is not None else "; ".join(map(str, provider_client.list_failures()))
        except TrellisError as error:
            return f"{name}: {error}"

    async def _build_context(self, informers: Informers, now: float) -> ProviderContext:
        return ProviderContext(
            client=self._client,
            served=await self._client.discover(),
            informers=informers,
            list_nodes=lambda: self._nodes,
            writer=Writer(self._client, record=lambda _outcome: None, settings=WriterSettings(read_only=True)),
            metrics=self._metrics,
            now=lambda: now,
            sections=self._settings.provider_sections,
            read_only=True,
            may_act=lambda: False,
        )

    async def _wait_until_synced(self, informers: Informers) -> str | None:
        """Why what a provider follows cannot be read; None once it has been."""
        synced = asyncio.create_task(informers.wait_until_synced())
        try:
            async with asyncio.timeout(self._patience):
                while not synced.done():
                    refusal = _find_refusal(informers)
                    if refusal is not None:
                        return refusal
                    await asyncio.wait({synced}, timeout=_CHECK_SECONDS)
        except TimeoutError:
            return informers.find_staleness_problem() or informers.find_readiness_problem()
        finally:
            await cancel_all([synced])
        return None


def _find_refusal(informers: Informers) -> str | None:
    for informer in informers:
        latest = informer.incidents.latest
        error = latest[-1].error if latest and not informer.synced else None
        if isinstance(error, Forbidden):
            return f"{informer.resource.full_name}: {_describe(error)}"
    return None


def _describe(error: KubeError) -> str:
    return error.message or str(error)


def _name_nodes(states: Iterable[GroupState], nodes: Collection[Node]) -> Iterable[GroupState]:
    """The states with the names of nodes that are known by their machines: a dump may leave provider ids out."""
    names = {node.spec.provider_id: node.metadata.name for node in nodes if node.spec.provider_id}

    def with_node(instance: Instance) -> Instance:
        name = names.get(instance.id, "") if not instance.node else ""
        return msgspec.structs.replace(instance, node=name) if name else instance

    for state in states:
        yield msgspec.structs.replace(state, instances=tuple(map(with_node, state.instances)))
