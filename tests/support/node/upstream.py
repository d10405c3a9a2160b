"""Upstream's VPA on a real node: its own chart, and its own programs in images that are made here."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import yaml

from support.install import upstream_chart
from testbed.access.certificates import Authority
from testbed.cluster import Cluster
from testbed.node.images.archives import build_program_image
from testbed.node.real_node import RealNode
from testbed.programs.building import ensure_programs
from testbed.programs.versions import UPSTREAM_ADMISSION, UPSTREAM_RECOMMENDER, UPSTREAM_UPDATER

NAMESPACE: Final = "kube-system"
_IMAGES: Final = {
    "recommender": UPSTREAM_RECOMMENDER,
    "admissionController": UPSTREAM_ADMISSION,
    "updater": UPSTREAM_UPDATER,
}
_CONFIGURATION: Final = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{upstream_chart.CONFIGURATION}"
)
_SERVICE: Final = "vpa-webhook"


def provide_images(node: RealNode) -> None:
    """Make the images that the chart names known to the node."""
    chart = upstream_chart.find_chart()
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    values: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    compiled = ensure_programs(_IMAGES.values())
    node.import_images(
        [
            build_program_image(f"{values[component]['image']['repository']}:{version}", compiled[program.name])
            for component, program in _IMAGES.items()
        ]
    )


class Certificate:
    """What the Jobs of the chart make: a Secret with the webhook's certificate, and the CA in its configuration."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        authority = Authority.new("upstream-vpa")
        server = authority.issue_server(_SERVICE, f"{_SERVICE}.{NAMESPACE}.svc")
        self._ca = b64encode(authority.pair.certificate).decode()
        self._files = {"cert": server.certificate, "key": server.key, "ca": authority.pair.certificate}

    def create_secret(self) -> None:
        """Before the release is installed."""
        data = {name: b64encode(content).decode() for name, content in self._files.items()}
        metadata = {"name": "vpa-tls-certs", "namespace": NAMESPACE}
        self._cluster.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def trust(self) -> None:
        """After the release is installed."""
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": self._ca}]
        self._cluster.api.patch(_CONFIGURATION, patch, "application/json-patch+json")
