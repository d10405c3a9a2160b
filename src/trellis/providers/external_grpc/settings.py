"""Settings of the provider externalgrpc."""

from __future__ import annotations

from typing import Annotated, ClassVar

from trellis.runtime.settings.declarations import Setting, Settings


class ExternalGrpcSettings(Settings, frozen=True):
    """Node groups behind Cluster Autoscaler's external gRPC protocol."""

    title: ClassVar[str] = "Node provider externalgrpc"

    external_grpc_config: Annotated[
        str,
        Setting(
            "Path of the file that describes the server: `address`, `cert`, `key`, `cacert` and `grpc_timeout`, as "
            "Cluster Autoscaler reads it by `--cloud-config`. Requires the extra `grpc` of the Python package.",
            why="Unset: required by `--cloud-provider=externalgrpc`.",
        ),
    ] = ""
