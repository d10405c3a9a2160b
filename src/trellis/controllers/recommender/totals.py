"""How does an Hvpa get to know totals of its workload? In its own status.

The status has two writers by server-side apply, and this is all that ours owns of it.
"""

from __future__ import annotations

from typing import Final

from trellis.core.recommend.totals import HvpaTotals
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import HVPAS

FIELD_MANAGER: Final = "trellis-recommender"


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
