"""Everything that an installation consists of, in the order in which one `kubectl apply` can create it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.install.objects.access import build_accounts, list_access_files
from trellis.install.objects.availability import build_budgets, build_priority_class
from trellis.install.objects.conditions import PROCESSES
from trellis.install.objects.definitions import list_definitions
from trellis.install.objects.monitoring import (
    build_alerts,
    build_dashboards,
    build_pod_monitor,
    build_service_monitor,
)
from trellis.install.objects.network import build_network_policies, build_webhook
from trellis.install.objects.workloads import (
    build_advisor,
    build_configuration,
    build_deployments,
    build_server_service,
)
from trellis.install.tree.evaluation import Context, evaluate
from trellis.install.tree.nodes import Tree, Value
from trellis.install.values.declarations import ADVISOR, DROP_IN, FULL, READ_ONLY

Manifest = dict[str, Any]

# Where a preset is installed if no namespace is given. Upstream's components are in kube-system.
NAMESPACES: Final[Mapping[str, str]] = {
    DROP_IN: "kube-system",
    FULL: "trellis-system",
    READ_ONLY: "trellis-system",
    ADVISOR: "trellis-system",
}
# They exist in every cluster.
_GIVEN_NAMESPACES: Final = ("kube-system", "default")
# Removed with nothing else: users' objects would go with them.
_KEPT: Final = ("CustomResourceDefinition", "Namespace")


def list_template_files() -> dict[str, list[Tree]]:
    """The trees of all objects, by the name of the chart's template. The order is that of creation."""
    files: dict[str, list[Tree]] = {f"crds/{plural}": trees for plural, trees in list_definitions()}
    files["priority-class"] = build_priority_class()
    files["accounts"] = build_accounts()
    files |= {f"access/{name}": trees for name, trees in list_access_files()}
    files["configuration"] = build_configuration()
    files["webhook"] = build_webhook()
    files["node-provider-server"] = build_server_service()
    files["network-policies"] = build_network_policies()
    files |= {f"deployments/{process.label}": build_deployments(process) for process in PROCESSES}
    files["advisor"] = build_advisor()
    files["disruption-budgets"] = build_budgets()
    files["pod-monitor"] = build_pod_monitor()
    files["service-monitor"] = build_service_monitor()
    files["alerts"] = build_alerts()
    files["dashboards"] = build_dashboards()
    files["extra-objects"] = [Value("extraObjects")]
    return files


def build_manifests(context: Context, *, comments: bool = False) -> list[Manifest]:
    """All objects of an installation with these values."""
    manifests: list[Manifest] = []
    for name, trees in list_template_files().items():
        for tree in trees:
            evaluated = evaluate(tree, context, comments=comments)
            # `extraObjects` is a list of objects.
            manifests += evaluated[0] if name == "extra-objects" else evaluated
    return manifests


def build_namespace(name: str) -> list[Manifest]:
    """The namespace of an installation, unless every cluster has it. Its pods meet the strictest standard."""
    if name in _GIVEN_NAMESPACES:
        return []
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}]


def order_for_removal(manifests: list[Manifest]) -> list[Manifest]:
    """What to delete, in this order: the webhook configuration first. CRDs and the namespace stay."""
    removed = [manifest for manifest in reversed(manifests) if manifest["kind"] not in _KEPT]
    return sorted(removed, key=lambda manifest: manifest["kind"] != "MutatingWebhookConfiguration")
