"""Where node groups are, for commands that read them: by a command line, else as the running autoscaler has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from trellis.controllers.nodes.settings import ProviderSettings
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.external_grpc.settings import ExternalGrpcSettings
from trellis.providers.kwok.settings import KwokSettings
from trellis.providers.node_claims.settings import NodeClaimSettings
from trellis.providers.plugins import load_providers
from trellis.runtime.settings.declarations import Settings, declared_settings
from trellis.runtime.settings.loader import WrittenValue, from_environment, from_flags, load_settings

_PROVIDERS: Final = "cloud-provider"
# Flags whose values are paths of files in the pod of the autoscaler, and the provider that needs each.
_PATHS: Final[Mapping[str, str]] = {"cluster-api-kubeconfig": "clusterapi", "external-grpc-config": "externalgrpc"}


class NodeGroupSettings(Settings, frozen=True):
    """The settings of `trellis nodes` that say where node groups are."""

    title: ClassVar[str] = "Node groups"

    provider: ProviderSettings = ProviderSettings()
    kwok: KwokSettings = KwokSettings()
    cluster_api: ClusterApiSettings = ClusterApiSettings()
    karpenter: NodeClaimSettings = NodeClaimSettings()
    external_grpc: ExternalGrpcSettings = ExternalGrpcSettings()

    @property
    def provider_sections(self) -> tuple[Settings, ...]:
        """The settings of the providers of Trellis."""
        return (self.kwok, self.cluster_api, self.karpenter, self.external_grpc)


class NodeGroupFlags:
    """The flags of a command line, by click's parameters, and the environment.

    What they leave out is taken from the autoscaler, except for paths.
    """

    def __init__(self, parameters: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Raises `InvalidInput` for flags that are wrong or name a provider that is not installed."""
        self._own = {
            **from_environment(NodeGroupSettings, environment),
            **from_flags(NodeGroupSettings, parameters),
        }
        self.own_settings = self.load({})
        if _PROVIDERS in self._own:
            load_providers(self.own_settings.provider.cloud_provider)

    @property
    def names_kwok_node_groups(self) -> bool:
        """Whether the ConfigMap with the groups of kwok is named."""
        return "kwok-node-groups" in self._own

    def load(self, deployed: Mapping[str, str]) -> NodeGroupSettings:
        """The settings, with the flags of the running autoscaler; raises `InvalidInput`."""
        written = {
            setting.name: WrittenValue(deployed[setting.name], f"flag --{setting.name} of the autoscaler")
            for setting in declared_settings(NodeGroupSettings)
            if setting.name in deployed and setting.name not in _PATHS
        }
        return load_settings(NodeGroupSettings, self._own, written).settings

    def list_unreadable(self, deployed: Mapping[str, str], providers: tuple[str, ...]) -> dict[str, str]:
        """The providers that cannot be asked, because a file that the autoscaler reads is not named here."""
        return {
            provider: f"{provider}: name a file here with --{flag}: that of the autoscaler is in its pod"
            for flag, provider in _PATHS.items()
            if provider in providers and flag in deployed and flag not in self._own
        }
