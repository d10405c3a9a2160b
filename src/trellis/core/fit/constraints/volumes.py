"""The nodes from which a pod's volumes can be reached.

The rules of `VolumeBinding`, `VolumeZone` and, for ReadWriteOncePod claims, `VolumeRestrictions` in Kubernetes 1.36. A
bound volume is where its node affinity and zone labels say. A volume with late binding can be created wherever its
class allows; free storage capacity and existing volumes that would match are not considered. A pod without its claims
fits no node.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.storage import (
    BIND_COMPLETED,
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.fit.constraints.node_affinity import NodeNameRule, NodeTerm, read_node_term

Terms: TypeAlias = tuple[NodeTerm, ...]

_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
# Separates the zones of a volume in one label.
_BETWEEN_ZONES: Final = "__"
_NOWHERE: Final[Terms] = ()
_UNZONED: Final = NodeTerm(tuple(LabelRequirement(key, LabelOperator.DOES_NOT_EXIST) for key in _ZONES))


class Storage(msgspec.Struct, frozen=True, dict=True):
    """Claims by namespace and name, volumes and classes."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    classes: Mapping[str, StorageClass] = {}

    @cached_property
    def made_for(self) -> Mapping[tuple[str, str], list[PersistentVolumeClaim]]:
        """The ephemeral claims of each pod, by its namespace and UID."""
        claims: dict[tuple[str, str], list[PersistentVolumeClaim]] = {}
        for claim in self.claims.values():
            owner = claim.metadata.controller
            if owner is not None:
                claims.setdefault((claim.metadata.namespace, owner.uid), []).append(claim)
        return claims


def is_read_write_once_pod(claim: PersistentVolumeClaim | None) -> bool:
    """Whether only one pod may use a claim."""
    return claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes


def find_volume_terms(
    spec: PodSpec, metadata: ObjectMeta, storage: Storage, in_use: Container[tuple[str, str]] = ()
) -> tuple[Terms, ...]:
    """For each volume, the terms of which a node must match one; no terms if the volume is on no node yet.

    `in_use` are the claims, by namespace and name, of other pods.
    """
    claims = _claims(spec, metadata, storage, in_use)
    return tuple(terms for claim, zoned in claims for terms in _terms(claim, storage, zoned))


def _claims(
    spec: PodSpec, metadata: ObjectMeta, storage: Storage, in_use: Container[tuple[str, str]]
) -> Iterator[tuple[PersistentVolumeClaim | None, bool]]:
    """The claims of a pod, and whether zone labels of the volume count, as they do for named claims.

    None stands for a claim that is missing, or that is ReadWriteOncePod and used by another pod.
    """
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            key = (metadata.namespace, volume.persistent_volume_claim.claim_name)
            claim = storage.claims.get(key)
            yield None if key in in_use and is_read_write_once_pod(claim) else claim, True
    ephemeral = sum(volume.ephemeral is not None for volume in spec.volumes)
    if ephemeral:
        ephemeral_claims = storage.made_for.get((metadata.namespace, metadata.uid), [])
        yield from ((claim, False) for claim in ephemeral_claims)
        yield from ((None, False) for _ in range(ephemeral - len(ephemeral_claims)))


def _terms(claim: PersistentVolumeClaim | None, storage: Storage, zoned: bool) -> Iterator[Terms]:
    if claim is None or claim.status.phase == "Lost" or claim.metadata.deletion_timestamp is not None:
        yield _NOWHERE
    elif claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
        volume = storage.volumes.get(claim.spec.volume_name)
        yield from (_NOWHERE,) if volume is None else _bound_volume_terms(volume, zoned)
    else:
        yield from _late_binding_terms(claim, storage.classes.get(claim.spec.storage_class_name))


def _bound_volume_terms(volume: PersistentVolume, zoned: bool) -> Iterator[Terms]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        read = (read_node_term(term) for term in affinity.required.node_selector_terms)
        # The scheduler compares only the labels of a node, as if it had no name.
        yield tuple(
            NodeTerm(term.labels)
            for term in read
            if term is not None and not any(rule.must_match for rule in term.names)
        )
    for key, new_key in _ZONES.items() if zoned else ():
        if key in volume.metadata.labels:
            zones = tuple(sorted(set(volume.metadata.labels[key].split(_BETWEEN_ZONES))))
            yield _in_zones(key, new_key, zones)


def _in_zones(key: str, new_key: str, zones: tuple[str, ...]) -> Terms:
    """The terms of zones: by the old label, by the new label on nodes without the old one, or nodes in no zone."""
    absent = LabelRequirement(key, LabelOperator.DOES_NOT_EXIST)
    current = NodeTerm((LabelRequirement(key, LabelOperator.IN, zones),))
    renamed = NodeTerm((absent, LabelRequirement(new_key, LabelOperator.IN, zones)))
    return (_UNZONED, current, renamed) if new_key != key else (_UNZONED, current)


def _late_binding_terms(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> Iterator[Terms]:
    if claim.spec.volume_name or storage_class is None or storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        yield _NOWHERE
        return
    if SELECTED_NODE in claim.metadata.annotations:
        yield (NodeTerm(names=(NodeNameRule(claim.metadata.annotations[SELECTED_NODE], must_match=True),)),)
    if storage_class.allowed_topologies:
        yield tuple(
            NodeTerm(
                tuple(
                    LabelRequirement(expression.key, LabelOperator.IN, expression.values)
                    for expression in term.match_label_expressions
                )
            )
            for term in storage_class.allowed_topologies
            if term.match_label_expressions
        )
