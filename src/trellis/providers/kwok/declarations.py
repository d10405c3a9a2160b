"""Reads the node groups that a ConfigMap declares.

Every entry of it is a file: one document or several, YAML or JSON, each a KwokNodeGroup. They are validated as
`trellis check` validates them. A document that is refused costs its own group alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kinds.kwok_node_group import (
    DEFAULT_BOOT_TIME,
    DEFAULT_PODS,
    GROUP_LABEL,
    KWOK_KEY,
    GroupFailure,
    KwokNodeGroup,
    KwokNodeGroupSpec,
)
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.problems import DUPLICATE, INVALID, ValidationProblem
from trellis.api.registry import KWOK_NODE_GROUP
from trellis.api.validation import validate
from trellis.base.durations import parse_span
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.quantities import Quantity
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.node_manifest import build_node_manifest
from trellis.core.lint.findings import Finding
from trellis.core.lint.kinds import recognise_kind
from trellis.core.lint.manifests import Manifest, ManifestSource, read_manifests
from trellis.core.nodes.node_groups import NodeGroup
from trellis.providers.kwok.instances import KWOK_VALUE
from trellis.providers.protocol import GroupProblem

GROUP_REFUSED = Reason("NodeGroupRefused", "The declaration of a node group is invalid.", Severity.ERROR)
NO_GROUPS = Reason("NoNodeGroups", "There is no declaration of node groups.", Severity.WARNING)

# The kubelet version of nodes: the first one whose API server reads the features that nodes declare.
_KUBELET: Final = "v1.36.0"
_FEATURES: Final = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers")


class DeclaredGroup(msgspec.Struct, frozen=True):
    """A declared group: its description, the Node that is created for it, and how it fails.

    `other_document` is the Node that is created instead where nodes come up with another shape.
    """

    group: NodeGroup
    document: dict[str, Any]
    other_document: dict[str, Any]
    fails: GroupFailure | None = None


class Declarations(msgspec.Struct, frozen=True):
    """All valid groups of a ConfigMap by name, and the problems of the others."""

    groups: Mapping[str, DeclaredGroup]
    problems: tuple[GroupProblem, ...] = ()


def read_declarations(config: ConfigMap | None, config_name: str) -> Declarations:
    """The groups of a ConfigMap; `config_name` is its namespace and name, for messages."""
    if config is None:
        return Declarations({}, (GroupProblem("", DetailedReason(NO_GROUPS, f"there is no ConfigMap {config_name}")),))
    groups: dict[str, DeclaredGroup] = {}
    problems: list[GroupProblem] = []
    for file, text in sorted(config.data.items()):
        manifests, unreadable = read_manifests(ManifestSource(file, text.encode(errors="surrogatepass")))
        problems += [_build_refusal("", [finding]) for finding in unreadable]
        for document in manifests:
            manifest, findings = _validate(document, groups)
            errors = [finding for finding in findings if finding.is_error]
            if errors:
                problems.append(_build_refusal(manifest.name, errors))
            else:
                groups[manifest.name] = _build_group(msgspec.convert(manifest.value, KwokNodeGroup))
    if not groups and not problems:
        problems.append(
            GroupProblem("", DetailedReason(NO_GROUPS, f"the ConfigMap {config_name} declares no node group"))
        )
    return Declarations(groups, tuple(problems))


def _build_node_document(
    spec: KwokNodeGroupSpec, group: str, resources: Mapping[str, str | int] | None
) -> dict[str, Any]:
    """A ready Node without a name."""
    offered = {"pods": DEFAULT_PODS} | {name: str(amount) for name, amount in (resources or {}).items()}
    labels = dict(spec.labels or {}) | {GROUP_LABEL: group, KWOK_KEY: KWOK_VALUE}
    document = build_node_manifest(offered, labels, spec.taints, _KUBELET)
    document["status"]["declaredFeatures"] = list(_FEATURES)
    return document


def _build_group(written: KwokNodeGroup) -> DeclaredGroup:
    spec, name = written.spec, written.metadata.name
    document = _build_node_document(spec, name, spec.resources)
    group = NodeGroup(
        name=name,
        template=convert_object(document, Node),
        max_size=spec.max_size or 0,
        min_size=spec.min_size or 0,
        price=_compute_price(spec),
        boot_seconds=parse_span(spec.boot_time or DEFAULT_BOOT_TIME),
        priority=spec.priority or 0,
    )
    other = spec.fails.resources if spec.fails is not None else None
    return DeclaredGroup(group, document, _build_node_document(spec, name, other or spec.resources), spec.fails)


def _compute_price(spec: KwokNodeGroupSpec) -> float:
    if spec.price is not None:
        return spec.price
    cores, bytes_ = (float(Quantity.parse((spec.resources or {})[name]).exact()) for name in ("cpu", "memory"))
    return EXAMPLE_PRICES.cost_per_hour(cores, bytes_)


def _validate(written: Manifest, others: Collection[str]) -> tuple[Manifest, list[Finding]]:
    """The document as it was read, and its problems; of two groups with one name the first counts."""
    manifest, kind, findings = recognise_kind(written)
    if kind is not KWOK_NODE_GROUP:
        expected = f"must be {KWOK_NODE_GROUP.name} of {KWOK_NODE_GROUP.api_version}"
        return manifest, [
            *findings,
            manifest.convert_problem(ValidationProblem(("kind",), INVALID, expected, manifest.kind)),
        ]
    findings += [manifest.convert_problem(problem) for problem in validate(kind, manifest.value)]
    if manifest.name in others:
        duplicate = ValidationProblem(
            ("metadata", "name"), DUPLICATE, "a node group of this name exists already", manifest.name
        )
        findings.append(manifest.convert_problem(duplicate))
    return manifest, findings


def _build_refusal(group: str, findings: Iterable[Finding]) -> GroupProblem:
    return GroupProblem(group, DetailedReason(GROUP_REFUSED, "; ".join(map(_format_finding, findings))))


def _format_finding(finding: Finding) -> str:
    path = f" {finding.path}:" if finding.path else ""
    return f"{finding.file}:{finding.line}:{finding.column}{path} {finding.message}"
