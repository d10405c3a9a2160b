"""The flags of commands that read node groups from providers, and the groups themselves.

The flags are those of `trellis nodes`. What the command line leaves out is taken from the Deployment of the node
autoscaler, if it can be read, except for paths: they are of files in its pod.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from trellis.api.kube.nodes import Node
    from trellis.controllers.nodes.group_query import NodeGroupSettings
    from trellis.core.cluster.dump_format import DumpedComponent
    from trellis.core.explain.component_decisions.reported_groups import ReportedGroups
    from trellis.kube.client import Client
    from trellis.runtime.settings.loader import LoadedSettings, WrittenValue
    from trellis.sources.cluster.collector import QueryGroups

F = TypeVar("F", bound=Callable[..., Any])

_COMPONENT: Final = "nodes"
_PROVIDERS: Final = "cloud-provider"
_KWOK_GROUPS: Final = "kwok-node-groups"
# Flags whose values are paths in the pod of the autoscaler, and the provider that needs each.
_PATHS: Final[Mapping[str, str]] = {"cluster-api-kubeconfig": "clusterapi", "external-grpc-config": "externalgrpc"}
# All other flags that say where node groups are, with what stands for a value. Their help is that of `trellis nodes`.
_FLAGS: Final[Mapping[str, str]] = {
    "provider-timeout": "DURATION",
    "provider-option": "TEXT",
    _KWOK_GROUPS: "NAME",
    "cluster-api-kubeconfig": "FILE",
    "cluster-api-context": "NAME",
    "cluster-api-namespaces": "LIST",
    "cluster-api-cluster-name": "NAME",
    "cluster-api-selector": "SELECTOR",
    "cluster-api-group": "NAME",
    "karpenter-node-groups": "NAME",
    "karpenter-launch-timeout": "DURATION",
    "external-grpc-config": "FILE",
}
NODE_GROUP_PARAMETERS: Final = tuple(name.replace("-", "_") for name in (_PROVIDERS, *_FLAGS))


def node_group_options(command: F) -> F:
    """Add `--cloud-provider`, and the flags of providers, which the help does not list."""
    option: Callable[[F], F] = click.option(
        f"--{_PROVIDERS}",
        metavar="LIST",
        help="Providers of nodes whose groups are read, such as clusterapi,karpenter. Their flags are those of "
        "`trellis nodes`.  [default: as the autoscaler has them, else kwok]",
    )
    command = option(command)
    for name, metavar in _FLAGS.items():
        hidden: Callable[[F], F] = click.option(f"--{name}", metavar=metavar, hidden=True)
        command = hidden(command)
    return command


class NodeGroupFlags:
    """The flags of a command line, by click's parameters."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """Raises `InvalidInput` for flags that are wrong or name a provider that is not installed."""
        self._parameters = {name: parameters[name] for name in NODE_GROUP_PARAMETERS}
        settings = self._load({}).settings
        if self._parameters[_PROVIDERS.replace("-", "_")]:
            from trellis.providers.plugins import load_providers  # noqa: PLC0415 -- for those who name providers

            load_providers(settings.provider.cloud_provider)
        self.kwok_node_groups: str = settings.kwok.kwok_node_groups
        """The ConfigMap with the groups of kwok."""
        self.names_kwok_node_groups = self._parameters[_KWOK_GROUPS.replace("-", "_")] is not None
        """Whether the command line has it."""

    @property
    def query(self) -> QueryGroups:
        """Asks the providers."""
        return self._query

    async def _query(
        self, client: Client, components: Sequence[DumpedComponent], nodes: Collection[Node]
    ) -> tuple[ReportedGroups, Sequence[str]] | None:
        """The groups of providers, and why some did not answer; None if kwok is the only one."""
        import time  # noqa: PLC0415 -- beside what is imported below

        import msgspec  # noqa: PLC0415

        from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with it; --help does not wait
        from trellis.controllers.nodes.group_query import query_groups  # noqa: PLC0415
        from trellis.controllers.nodes.settings import KWOK  # noqa: PLC0415
        from trellis.core.explain.component_decisions.reported_groups import ReportedGroups  # noqa: PLC0415

        component = next((item for item in components if item.component == _COMPONENT), None)
        flags = component.flags if component is not None else {}
        try:
            settings = self._load(flags).settings
        except InvalidInput as error:
            names = tuple(flags.get(_PROVIDERS, KWOK).split(","))
            return ReportedGroups(names), (f"the flags of {_COMPONENT}: {error}",)
        names = settings.provider.cloud_provider
        if set(names) == {KWOK}:
            return None
        beyond = self._list_paths(flags, names)
        asked = tuple(name for name in names if name not in beyond)
        provider = msgspec.structs.replace(settings.provider, cloud_provider=asked)
        answers = await query_groups(client, msgspec.structs.replace(settings, provider=provider), nodes, time.time())
        groups = msgspec.structs.replace(answers.groups, providers=names)
        return groups, (*beyond.values(), *answers.failures)

    def _load(self, flags: Mapping[str, str]) -> LoadedSettings[NodeGroupSettings]:
        """The settings of the command line, the environment, and the flags of the autoscaler."""
        from trellis.controllers.nodes.group_query import NodeGroupSettings  # noqa: PLC0415 -- NumPy comes with it
        from trellis.runtime.settings.loader import (  # noqa: PLC0415
            WrittenValue,
            from_environment,
            from_flags,
            load_settings,
        )

        deployed: dict[str, WrittenValue] = {
            name: WrittenValue(flags[name], f"flag --{name} of the autoscaler")
            for name in (_PROVIDERS, *_FLAGS)
            if name in flags and name not in _PATHS
        }
        return load_settings(
            NodeGroupSettings,
            from_flags(NodeGroupSettings, self._parameters),
            from_environment(NodeGroupSettings, os.environ),
            deployed,
        )

    def _list_paths(self, flags: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
        """Providers that cannot be asked, because a file that the autoscaler reads is not named here."""
        return {
            provider: f"{provider}: name a file here with --{flag}: that of the autoscaler is {flags[flag]} in its pod"
            for flag, provider in _PATHS.items()
            if provider in names and flag in flags and not self._parameters[flag.replace("-", "_")]
        }
