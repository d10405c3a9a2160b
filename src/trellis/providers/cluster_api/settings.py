"""Settings of the provider clusterapi."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from trellis.base.errors import InvalidSelector
from trellis.base.selectors import parse_selector
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings


class ClusterApiSettings(Settings, frozen=True):
    """Machines by Cluster API."""

    title: ClassVar[str] = "Node provider clusterapi"

    cluster_api_kubeconfig: Annotated[
        str,
        Setting(
            "Path of the kubeconfig of the management cluster, in which Cluster API runs.",
            why="Unset: Cluster API runs in the cluster of the nodes.",
        ),
    ] = ""
    cluster_api_context: Annotated[
        str,
        Setting("Context of the kubeconfig of the management cluster.", why="Unset: its current context."),
    ] = ""
    cluster_api_namespaces: Annotated[
        tuple[str, ...],
        Setting("Namespaces of the management cluster in which groups are found.", why="Unset: all namespaces."),
    ] = ()
    cluster_api_cluster_name: Annotated[
        str,
        Setting(
            "Name of the Cluster whose groups are used. Required if the management cluster has several.",
            why="Unset: the only Cluster that has groups.",
        ),
    ] = ""
    cluster_api_selector: Annotated[
        str,
        Setting(
            "Labels that a MachineDeployment, MachineSet or MachinePool must have, as a selector.",
            why="Unset: all that have a minimum and a maximum size in their annotations.",
        ),
    ] = ""
    cluster_api_group: Annotated[
        str,
        Setting(
            "API group of Cluster API, which its annotations begin with as well.",
            why="As in Cluster API.",
            variable="CAPI_GROUP",
        ),
    ] = "cluster.x-k8s.io"

    def conflicts(self) -> Iterator[SettingConflict]:
        """The selector can be read."""
        try:
            parse_selector(self.cluster_api_selector)
        except InvalidSelector as error:
            yield SettingConflict("cluster-api-selector", str(error))
