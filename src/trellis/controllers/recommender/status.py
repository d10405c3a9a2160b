"""Builds status writes: the status of a VPA, and the totals in the status of an Hvpa.

The status of an Hvpa has two writers by server-side apply, and the recommender owns nothing of it but `totals`.
"""

from __future__ import annotations

from typing import Final

from trellis.core.recommend.publish.hvpa_totals import HvpaTotals
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.kube.resources import HVPAS, VPAS
from trellis.kube.write.actions import Action, PatchObject, PatchStatus, Target
from trellis.kube.write.patches import apply_patch

FIELD_MANAGER: Final = "trellis-recommender"


def build_totals_action(totals: HvpaTotals) -> Action:
    """Write the totals, and nothing else."""
    metadata = totals.hvpa.metadata
    amounts = {name: text for name, text in (("cpu", totals.cpu), ("memory", totals.memory)) if text is not None}
    document = {
        "apiVersion": HVPAS.api_version,
        "kind": HVPAS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": {"totals": amounts},
    }
    # Without the UID: server-side apply would create what is not there, but not through a subresource.
    target = Target(HVPAS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)


def build_status_action(write: VpaStatusWrite) -> PatchStatus:
    """The patch of a VPA's status, which fails if the VPA has changed since it was read."""
    target = Target(VPAS, write.name, write.namespace, write.uid, write.resource_version)
    return PatchStatus(target, write.status)
