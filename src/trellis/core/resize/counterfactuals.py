"""What would have pods resized that the minimum of replicas holds back? The plan itself, asked with other settings."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.core.resize.inplace import Way
from trellis.core.resize.plan import plan
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.views import WorkloadView

# The setting `skip_disruption_budget`, as the updater's users know it.
SKIP_BUDGET_FLAG: Final = "--in-place-skip-disruption-budget"


def mode_with_skipped_budget(view: WorkloadView, now: float, settings: UpdateSettings) -> UpdateMode | None:
    """The mode in which pods of the view are resized once the flag is set; None if the flag does not help.

    It is the mode of the object, unless that never resizes.
    """
    if settings.skip_disruption_budget:
        return None
    governor = view.governor
    mode = UpdateMode.IN_PLACE_OR_RECREATE if governor.vpa.mode is UpdateMode.RECREATE else governor.vpa.mode
    changed = msgspec.structs.replace(governor, vpa=msgspec.structs.replace(governor.vpa, mode=mode))
    free = msgspec.structs.replace(settings, skip_disruption_budget=True)
    made = plan(msgspec.structs.replace(view, governor=changed), now, free)
    return mode if any(verdict.way is Way.RESIZE for verdict in made.verdicts) else None
