"""What a ClaimNodeGroup declares: the group, and the NodeClaims that are created for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL, ClaimNodeGroup, ClaimNodeGroupSpec
from trellis.core.nodes.node_groups import NodeGroup
from trellis.kube.resources import NODE_CLAIMS
from trellis.providers.declared.groups import build_node_document, build_node_group
from trellis.providers.node_claims.instances import REPORT_FINALIZER

# What machines of a cloud usually need until pods can be placed; how long one may take is a setting.
_USUAL_BOOT_SECONDS: Final = 60.0


class DeclaredClaimGroup(msgspec.Struct, frozen=True):
    """A declared group: its description, and the NodeClaim that is created for a node, without a name."""

    group: NodeGroup
    document: dict[str, Any]


def build_claim_group(document: Mapping[str, Any]) -> DeclaredClaimGroup:
    """The group of a valid document."""
    written = msgspec.convert(document, ClaimNodeGroup)
    spec, name = written.spec, written.metadata.name
    own = {CLAIM_GROUP_LABEL: name}
    node = build_node_document(spec, {**_single_values(spec), **own}, spec.resources)
    claim = {
        "apiVersion": NODE_CLAIMS.api_version,
        "kind": NODE_CLAIMS.kind,
        "metadata": {"labels": {**(spec.labels or {}), **own}, "finalizers": [REPORT_FINALIZER]},
        "spec": _build_claim_spec(spec),
    }
    return DeclaredClaimGroup(build_node_group(name, spec, node, _USUAL_BOOT_SECONDS), claim)


def build_claim(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The NodeClaim to create, from that of its group."""
    return {**document, "metadata": {"name": name, **document["metadata"]}}


def _build_claim_spec(spec: ClaimNodeGroupSpec) -> dict[str, Any]:
    """Karpenter must not replace a node by its age: which node is removed, and when, is decided here."""
    lists = {"requirements": spec.requirements, "taints": spec.taints, "startupTaints": spec.startup_taints}
    return {
        "nodeClassRef": msgspec.to_builtins(spec.node_class_ref),
        "requirements": [],
        **{name: _to_documents(items) for name, items in lists.items() if items},
        "resources": {"requests": {name: str(amount) for name, amount in (spec.resources or {}).items()}},
        "expireAfter": "Never",
    }


def _to_documents(items: Iterable[msgspec.Struct]) -> list[Any]:
    return [msgspec.to_builtins(item) for item in items]


def _single_values(spec: ClaimNodeGroupSpec) -> dict[str, str]:
    """Labels that every machine of the group has by its requirements."""
    return {
        requirement.key: requirement.values[0]
        for requirement in spec.requirements or ()
        if requirement.operator == "In" and requirement.values and len(requirement.values) == 1
    }
