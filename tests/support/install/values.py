"""Random values of an installation, drawn from what their declarations allow."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree
from trellis.install.values.declarations import InstallValues
from trellis.install.values.loading import default_values, find_problems, merge

_SAMPLES: dict[str, Any] = {
    "watchedNamespaces": [["shop"], ["shop", "jobs"]],
    "components": [["recommender"], ["recommender", "updater", "hvpa"], ["admission", "nodes"], ["buffers"]],
    "imagePullSecrets": [[{"name": "registry"}]],
    "configuration": [{"updater": {"minReplicas": 1, "interval": "1m"}, "logs": {"v": 4}, "list": ["a", "b: c"]}],
    "image.repository": ["registry.example:5000/team/trellis"],
    "image.digest": ["sha256:" + "0a" * 32],
    "admission.certificateSecret": ["own-certificates"],
    "admission.serviceName": ["trellis-webhook"],
    "advisor.schedule": ["*/5 * * * *", "@daily"],
    "priorityClass.name": ["", "own-class"],
    "networkPolicies.apiServerPorts": [[443], [16443, 8443]],
    "networkPolicies.prometheusPorts": [[], [9090, 8428]],
    "networkPolicies.metricsFrom": [[{"namespaceSelector": {"matchLabels": {"a": "b"}}}]],
    "networkPolicies.extraEgress": [[{"ports": [{"port": 3128, "protocol": "TCP"}]}]],
    "prometheusRule.runbooks": ["https://runbooks.example/trellis"],
    "recommender.extraNames": [["frugal"], ["frugal", "bold"]],
    "podMonitor.interval": ["15s", "1m"],
    "serviceMonitor.interval": ["15s", "1m"],
    "nodes.cloudProviders": [["kwok"], ["clusterapi", "karpenter"]],
    "nodeSelector": [{"kubernetes.io/os": "linux"}],
    "tolerations": [[{"key": "a", "operator": "Exists"}, {"key": "b", "value": "yes", "tolerationSeconds": 30}]],
    "affinity": [{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}],
    "extraEnv": [[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "A", "value": "yes"}]],
    "extraObjects": [
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1: {{ b }}"}}]
    ],
}
_TEXTS = ["x", "yes", "1.0", "a: b", "{{ x }}", "é #1", '"quoted"', "- dash"]
_MAPS = [{"team": "shop"}, {"example.com/a": "true", "b": "1"}]
_RESOURCES = [{}, {"limits": {"cpu": 1}}, {"requests": {"memory": "1Gi"}, "limits": {"memory": "1.5Gi"}}]


def install_values() -> st.SearchStrategy[dict[str, Any]]:
    """Complete values that are valid: some paths are set, the others have their defaults."""
    paths = _list_paths(build_schema_tree(InstallValues), "")
    changes = st.lists(st.sampled_from(sorted(paths)), max_size=8, unique=True).flatmap(
        lambda chosen: st.tuples(*(st.tuples(st.just(path), paths[path]) for path in chosen))
    )
    return changes.map(_build).filter(lambda values: not find_problems(values))


def _build(changes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    values = default_values()
    for path, value in changes:
        document: Any = value
        for key in reversed(path.split(".")):
            document = {key: document}
        values = merge(values, document)
    return values


def _list_paths(node: SchemaNode, prefix: str) -> dict[str, st.SearchStrategy[Any]]:
    paths: dict[str, st.SearchStrategy[Any]] = {}
    for name, member in node.members.items():
        path = f"{prefix}{name}"
        if member.shape is JsonShape.OBJECT:
            paths |= _list_paths(member, f"{path}.")
        else:
            paths[path] = _draw(path, member)
    return paths


def _draw(path: str, node: SchemaNode) -> st.SearchStrategy[Any]:
    field = node.field
    if path in _SAMPLES:
        return st.sampled_from(_SAMPLES[path])
    if field.enum:
        return st.sampled_from(field.enum)
    match node.shape:
        case JsonShape.BOOLEAN:
            return st.booleans()
        case JsonShape.INTEGER:
            return st.integers(field.minimum or 0, field.maximum or 100)
        case JsonShape.LIST:
            return st.lists(st.sampled_from(_TEXTS), max_size=3)
        case JsonShape.MAP:
            return st.sampled_from(_RESOURCES if path.endswith("resources") else _MAPS)
    return st.sampled_from(["1.2.3", "1.0", "latest"])
