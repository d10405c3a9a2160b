"""Anonymizes node groups that providers reported, with the same pseudonyms as the objects of the dump."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.base.json_lines import decode_payload, encode_payload
from trellis.base.reasons import DetailedReason
from trellis.core.explain.component_decisions.reported_groups import ReportedGroups
from trellis.core.nodes.node_groups import GroupState, Instance
from trellis.sources.cluster.anonymization import Anonymizer

# Names of providers that come with Trellis, which are the same everywhere.
_BUILT_IN: Final = ("kwok", "clusterapi", "karpenter", "externalgrpc")


def anonymize_groups(groups: ReportedGroups, mask: Anonymizer) -> ReportedGroups:
    """The groups with pseudonyms. Of reasons the code remains: their details are sentences with names."""
    return ReportedGroups(
        tuple(name if name in _BUILT_IN else mask.mask_name(name) for name in groups.providers),
        tuple(_anonymize_state(state, mask) for state in groups.states),
        tuple((mask.mask_name(name), DetailedReason(problem.reason)) for name, problem in groups.problems),
    )


def _anonymize_state(state: GroupState, mask: Anonymizer) -> GroupState:
    document = {"kind": Node.__name__, **decode_payload(encode_payload(state.group.template), dict[str, Any])}
    template = convert_object(mask.anonymize(document), Node)
    return GroupState(
        replace(state.group, name=mask.mask_name(state.group.name), template=template),
        state.target,
        tuple(_anonymize_instance(instance, mask) for instance in state.instances),
        _drop_details(state.suspended),
        _drop_details(state.removals_suspended),
    )


def _anonymize_instance(instance: Instance, mask: Anonymizer) -> Instance:
    node = mask.mask_node(instance.node)
    return replace(instance, id=mask.mask_name(instance.id), node=node, error=_drop_details(instance.error))


def _drop_details(reason: DetailedReason | None) -> DetailedReason | None:
    return None if reason is None else DetailedReason(reason.reason)
