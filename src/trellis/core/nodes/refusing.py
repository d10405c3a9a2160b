"""Why can no group help? For each group the first thing that stands in the way."""

from __future__ import annotations

import numpy as np

from trellis.base.reason import Reason
from trellis.core.buffers.said import Said
from trellis.core.fit import Demand, refusals
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.needs import rooms_for
from trellis.core.nodes.templates import Templates
from trellis.core.nodes.verdicts import GROUPS_EXHAUSTED, NO_GROUP_FITS, NOT_BESIDE_OTHERS, GroupsRefused


def refused_by(templates: Templates, limits: Limits, demand: Demand) -> tuple[Said, tuple[GroupsRefused, ...]]:
    """What to say of pods that no group could take, and why of each group; those that fail alike are told together."""
    names = templates.names
    able = rooms_for(templates, demand) > 0
    allowed = limits.rooms() > 0
    found: dict[tuple[Reason, str], list[int]] = {}
    for each in refusals(templates.table, demand, templates.used):
        found.setdefault((each.reason, each.resource), []).extend(np.flatnonzero(each.nodes & ~able).tolist())
    for group in np.flatnonzero(able).tolist():
        reason = NOT_BESIDE_OTHERS if allowed[group] else limits.why_none(group).reason
        found.setdefault((reason, ""), []).append(group)
    told = tuple(
        GroupsRefused(reason, tuple(names[group] for group in sorted(groups)), resource)
        for (reason, resource), groups in found.items()
        if groups
    )
    return _said(bool(able.any()), bool((able & ~allowed).any())), told


def _said(fits_somewhere: bool, is_limited: bool) -> Said:
    if not fits_somewhere:
        return Said(NO_GROUP_FITS)
    return Said(GROUPS_EXHAUSTED if is_limited else NOT_BESIDE_OTHERS)
