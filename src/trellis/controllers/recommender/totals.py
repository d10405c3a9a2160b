"""What does an Hvpa learn of the whole workload where the VPA is the user's? Totals, in the Hvpa's own status.

The status has two writers by server-side apply, and this is all that ours owns of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import HVPAS

FIELD_MANAGER: Final = "trellis-recommender"


class HvpaTotals(msgspec.Struct, frozen=True):
    """What all replicas together need, as quantities; None where nothing is known of a resource."""

    hvpa: Hvpa
    cpu: str | None
    memory: str | None

    @property
    def differs(self) -> bool:
        """Whether the status says something else."""
        known = self.hvpa.status.totals if self.hvpa.status else None
        return (known.cpu, known.memory) != (self.cpu, self.memory) if known else bool(self.cpu or self.memory)


def totals_action(totals: HvpaTotals) -> Action:
    """Write the totals, and nothing else."""
    metadata = totals.hvpa.metadata
    found = {name: text for name, text in (("cpu", totals.cpu), ("memory", totals.memory)) if text is not None}
    document = {
        "apiVersion": HVPAS.api_version,
        "kind": HVPAS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": {"totals": found},
    }
    # Without the UID: server-side apply would create what is not there, but not through a subresource.
    target = Target(HVPAS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
