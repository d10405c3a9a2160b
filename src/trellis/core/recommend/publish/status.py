"""Builds the statuses of VerticalPodAutoscalers that are to be written, whole, as documents of a merge patch.

The list of containers is sorted by name. With nothing to recommend it is removed, which leaves `recommendation: {}`
as upstream writes it. An amount that a policy set is spelled as the policy spells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from trellis.base.times import format_time
from trellis.core.recommend.amounts import (
    CPU,
    LOWER_BOUND,
    MEMORY,
    STATUS_FIELDS,
    TARGET,
    TOTAL,
    UNCAPPED,
    UPPER_BOUND,
    format_cpu_column,
    format_memory_column,
)
from trellis.core.recommend.publish.changes import decode_write_reasons
from trellis.core.recommend.publish.conditions import HistoryShortage, build_conditions
from trellis.core.recommend.state.condition_types import ConditionBit
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.state.vpa_table import VpaStatusWrite
from trellis.core.usage.columns import FloatColumn, IntColumn


class DesiredStatuses(msgspec.Struct, frozen=True):
    """What should be published: amounts by container number; condition bits and reasons to write by VPA number.

    `shortages` says of VPAs with little confidence which container has the least history.
    """

    amounts: FloatColumn
    truth: IntColumn
    reasons: IntColumn
    shortages: Mapping[int, HistoryShortage]


def build_status_writes(
    due: Sequence[int], desired: DesiredStatuses, board: VpaStore, now: float
) -> Iterator[VpaStatusWrite]:
    """The writes for some VPA numbers."""
    vpas, containers = board.vpas, board.containers
    recommended = (~np.isnan(desired.amounts[TARGET]).all(axis=0)).tolist()
    listed = [[each for each in vpas.entries[number].containers if recommended[each]] for number in due]
    order = [container for each in listed for container in each]
    amounts = desired.amounts[:, :, order]
    names = [key.container for key in containers.keys(order)]
    spelled = {at: containers.spelled[number] for at, number in enumerate(order) if number in containers.spelled}
    documents = build_container_recommendations(names, amounts, spelled)
    time = format_time(datetime.fromtimestamp(now, UTC))
    begin = 0
    for number, own in zip(due, listed, strict=True):
        end = begin + len(own)
        entry, truth = vpas.entries[number], int(desired.truth[number])
        vpa = entry.vpa
        # Where anything is recommended, something is to be sized.
        sizes_any = bool(own) or vpa.sizes_any(map(containers.name_of, entry.containers))
        status = {
            # Null, because a merge patch would leave the list of before under an empty object.
            "recommendation": {"containerRecommendations": documents[begin:end] or None},
            "conditions": build_conditions(entry, truth, desired.shortages.get(number), time, sizes_any=sizes_any),
            "observedGeneration": vpa.generation,
        }
        yield VpaStatusWrite(
            namespace=vpa.namespace,
            name=vpa.name,
            uid=vpa.uid,
            resource_version=vpa.resource_version,
            created=vpa.created,
            status=status,
            first=bool(truth & ConditionBit.PROVIDED) and not vpas.ever[number],
            reasons=decode_write_reasons(int(desired.reasons[number])),
            containers=tuple(names[begin:end]),
            amounts=amounts[:, :, begin:end],
            truth=truth,
            said=int(vpas.said[number]),
        )
        begin = end


def build_container_recommendations(
    names: Sequence[str], amounts: FloatColumn, spelled: Mapping[int, Mapping[tuple[str, float], str]]
) -> list[dict[str, Any]]:
    """The entries of several statuses, one after the other."""
    targets = format_resources(amounts[TARGET])
    documents: list[dict[str, Any]] = [
        {"containerName": name, "target": target} for name, target in zip(names, targets, strict=True)
    ]
    for what in (LOWER_BOUND, UPPER_BOUND, UNCAPPED, TOTAL):
        field = STATUS_FIELDS[what]
        found = _format_uncapped(amounts, targets) if what == UNCAPPED else format_resources(amounts[what])
        for document, texts in zip(documents, found, strict=True):
            if texts:
                document[field] = texts
    for at, texts_of in spelled.items():
        _keep_policy_spelling(documents[at], amounts[:, :, at], texts_of)
    return documents


def _format_uncapped(amounts: FloatColumn, targets: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Those of the targets, where no policy cut them: that is nearly everywhere."""
    texts = list(targets)
    cut = np.flatnonzero((np.nan_to_num(amounts[UNCAPPED]) != np.nan_to_num(amounts[TARGET])).any(axis=0))
    for at, own in zip(cut.tolist(), format_resources(amounts[UNCAPPED][:, cut]), strict=True):
        texts[at] = own
    return texts


def format_resources(amounts: FloatColumn) -> list[dict[str, str]]:
    """Amounts (resource, container) as they are written, without those that are NaN."""
    cpu, memory = amounts
    no_cpu, no_memory = np.isnan(cpu), np.isnan(memory)
    if no_cpu.all() and no_memory.all():
        return [{}] * len(cpu)
    pairs = zip(format_cpu_column(cpu), format_memory_column(memory), strict=True)
    found = [{"cpu": cores, "memory": amount} for cores, amount in pairs]
    for at in np.flatnonzero(no_cpu).tolist():
        del found[at]["cpu"]
    for at in np.flatnonzero(no_memory).tolist():
        del found[at]["memory"]
    return found


def _keep_policy_spelling(
    document: dict[str, Any], amounts: FloatColumn, spelled: Mapping[tuple[str, float], str]
) -> None:
    for field, row in zip(STATUS_FIELDS, amounts, strict=True):
        for resource, which in (("cpu", CPU), ("memory", MEMORY)):
            text = spelled.get((resource, float(row[which])))
            if text is not None:
                document[field] = document[field] | {resource: text}
