"""Of which groups would new nodes be in the right domain, for pods that go by where others are?"""

from __future__ import annotations

import numpy as np

from trellis.base.label_requirements import Operator, Requirement
from trellis.core.fit import Demand
from trellis.core.fit.beside import POD_AFFINITY_UNMET, beside
from trellis.core.nodes.templates import HOSTNAME, Templates
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.worlds import World
from trellis.core.usage.columns import BoolColumn, IntColumn


def spread_parts(templates: Templates, demand: Demand, groups: IntColumn) -> list[IntColumn]:
    """Groups by the domains over which pods are spread, as positions; every node is a host of its own anyway."""
    keys = [each.key for each in demand.spread if each.key != HOSTNAME]
    if not keys:
        return [np.arange(len(groups))]
    domains = np.stack([templates.table.domains(key)[0][groups] for key in keys])
    _, which = np.unique(domains, axis=1, return_inverse=True)
    which = which.reshape(-1)
    return [np.flatnonzero(which == each) for each in range(int(which.max()) + 1)]


def open_to(trial: Trial, world: World, demand: Demand, groups: IntColumn) -> BoolColumn:
    """The groups whose nodes would be where pods find the company that they ask for."""
    found = np.ones(len(groups), dtype=np.bool_)
    table, nodes = trial.table, trial.templates.nodes
    keys = dict.fromkeys(each.key for each in demand.near)
    rules = (each.rule for each in beside(table, world.near, demand) if each.reason is POD_AFFINITY_UNMET)
    for key, rule in zip(keys, rules, strict=True):
        if rule.changes:
            # The first of its like may be anywhere.
            continue
        there = table.exists & rule.mask
        answers: dict[str | None, bool] = {}
        for at, group in enumerate(groups.tolist()):
            value = nodes[group].metadata.labels.get(key)
            if value not in answers:
                alike = None if value is None else table.labelled(Requirement(key, Operator.IN, (value,)))
                answers[value] = alike is not None and bool((there & alike).any())
            found[at] &= answers[value]
    return found
