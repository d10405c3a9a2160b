"""What does a pass leave in the metrics? Samples, recommendations and how well the two agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np

from trellis.api.resolve import COUNTED_MODES, WRITTEN_MODES
from trellis.controllers.recommender import metrics as named
from trellis.controllers.recommender.quality import Compared, observe_changes, observe_usage
from trellis.core.recommend.amounts import CPU, MEMORY, MILLICORES, UNCAPPED
from trellis.core.recommend.results import Columns, PassResult
from trellis.core.recommend.served import StatusWrite
from trellis.core.recommend.shadows import differences
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.model import Sizes
from trellis.core.usage.ooms import OomRecord
from trellis.core.usage.samples import Ingested
from trellis.runtime.metrics import Metrics

# The versions that upstream has a label for. Only the first is served, so that nobody has objects of the others.
_API: Final = "v1"
_APIS: Final = (_API, "v1beta2", "v1beta1")
_ACCEPTED: Final = "Accepted"


class Counting:
    """The metrics of passes."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._taken_in: tuple[Ingested, OomRecord] | None = None

    def count_resources(self, sources: Mapping[str, int]) -> None:
        """Where the resources of containers were read from."""
        for source, number in sources.items():
            self._metrics.add(named.RESOURCES_READ, number, source)

    def count_samples(self, ingested: Ingested, ooms: OomRecord) -> None:
        """What became of samples and kills."""
        self._metrics.add(named.SAMPLES, ingested.accepted, _ACCEPTED)
        for code, number in ingested.dropped.items():
            self._metrics.add(named.SAMPLES, number, code)
        self._metrics.add(named.OOMS, len(ooms.kills), _ACCEPTED)
        for code, number in ooms.dropped.items():
            self._metrics.add(named.OOMS, number, code)
        self._taken_in = ingested, ooms

    def count_quality(self, columns: Columns) -> None:
        """How samples and kills compare with what was published when they came, which was in force.

        The columns are those of the pass that took them in: only it knows the VPAs of containers that are new.
        """
        if self._taken_in is None:
            return
        (ingested, ooms), self._taken_in = self._taken_in, None
        cpu, memory, modes = _in_force(columns, ingested.rows)
        observe_usage(self._metrics, "cpu", Compared(ingested.cpu, cpu, modes, WRITTEN_MODES))
        observe_usage(self._metrics, "memory", Compared(ingested.memory, memory, modes, WRITTEN_MODES))
        _, memory, modes = _in_force(columns, ooms.rows)
        observe_usage(self._metrics, "memory", Compared(ooms.memory, memory, modes, WRITTEN_MODES), oom=True)

    def count_advice(self, result: PassResult, written: Sequence[StatusWrite], now: float) -> None:
        """What was recommended."""
        flags = [str(each).lower() for each in (True, False)]
        counts: dict[tuple[str, ...], float] = dict.fromkeys(product(COUNTED_MODES, flags, _APIS, flags, flags), 0.0)
        for (mode, *others), number in result.counts.items():
            has, matches, unsupported = (str(each).lower() for each in others)
            counts[mode, has, _API, matches, unsupported] = number
        self._metrics.set_all(named.OBJECTS, counts)
        first = [now - write.created for write in written if write.first]
        self._metrics.observe_all(named.FIRST_RECOMMENDATION, np.array(first, dtype=np.float64))
        self._count_changes(result.columns, written)
        self._count_shadows(result)

    def count_state(self, sizes: Sizes) -> None:
        """How much is remembered."""
        self._metrics.set(named.STATES, sizes.rows)
        self._metrics.set(named.MODEL_BYTES, sizes.bytes)

    def count_unreadable(self, checkpoints: int) -> None:
        """How many checkpoints could not be read and have not been written anew."""
        self._metrics.set(named.UNREADABLE, checkpoints)

    def _count_changes(self, columns: Columns, written: Sequence[StatusWrite]) -> None:
        """By how much published targets moved, in every pass as upstream: one that was not written has not moved."""
        known = columns.places >= 0
        places = columns.places[known]
        if not len(places):
            return
        keys = {(write.namespace, write.name) for write in written}
        moved = np.array([(key.namespace, key.vpa) in keys for key in columns.keys], dtype=np.bool_)[known]
        before = columns.previous[:, places]
        after = np.where(moved, columns.amounts[UNCAPPED][:, places], before)
        observe_changes(self._metrics, (before, after), columns.modes[places], columns.pods[places], WRITTEN_MODES)

    def _count_shadows(self, result: PassResult) -> None:
        """How far shadows are from what was recommended."""
        for name, shadow in result.answers.shadows.items():
            self._metrics.add(named.SHADOW_FAILURES, 1 if shadow.failure else 0, name)
        for name, resource, found in differences(result.answers.shadows, result.answers.bounds):
            self._metrics.observe_all(named.SHADOW_DIFFERENCE, found, name, resource)
        unhosted = Counter(each.recommender for each in result.unhosted)
        self._metrics.set_all(named.SHADOW_UNHOSTED, {(name,): number for name, number in unhosted.items()})


def _in_force(columns: Columns, rows: IntColumn) -> tuple[FloatColumn, FloatColumn, IntColumn]:
    """The recommendation for some rows, in cores and bytes, and the modes of their VPAs."""
    uncapped = columns.previously_of(rows)
    return uncapped[CPU] / MILLICORES, uncapped[MEMORY], columns.modes_of(rows)
