"""Of which container is the least known? What the condition LowConfidence tells of a VPA."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.asking import Answers
from trellis.core.recommend.conditions import Shortage
from trellis.core.recommend.results import Columns
from trellis.core.recommend.truths import unsure
from trellis.core.usage.columns import IntColumn


def shortages(of: IntColumn, answers: Answers, columns: Columns) -> dict[int, Shortage]:
    """Of each of these VPA numbers: the container with the least confidence, if it is too little."""
    numbers = np.flatnonzero(unsure(answers))
    owners = columns.owners[numbers]
    is_asked = np.zeros(max(int(columns.owners.max(initial=-1)), int(of.max(initial=-1))) + 1, dtype=np.bool_)
    is_asked[of] = True
    numbers, owners = numbers[is_asked[owners]], owners[is_asked[owners]]
    order = np.lexsort((answers.confidence[numbers], owners))
    found, first = np.unique(owners[order], return_index=True)
    at = answers.positions[numbers[order][first]]
    spans = np.nan_to_num(columns.last[at] - columns.first[at])
    names = [columns.keys[position].container for position in at.tolist()]
    told = map(Shortage, names, columns.count[at].tolist(), spans.tolist())
    return dict(zip(found.tolist(), told, strict=True))
