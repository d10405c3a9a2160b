"""What is the status of a VerticalPodAutoscaler? The whole of it, as a document, for those that are to be written.

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
    PUBLISHED_AS,
    TARGET,
    TOTAL,
    UNCAPPED,
    UPPER_BOUND,
)
from trellis.core.recommend.board import Board
from trellis.core.recommend.changes import reasons_of
from trellis.core.recommend.conditions import Holds, Shortage, condition_documents
from trellis.core.recommend.quantity_column import cpu_texts, memory_texts
from trellis.core.recommend.served import StatusWrite
from trellis.core.usage.columns import FloatColumn, IntColumn


class Desired(msgspec.Struct, frozen=True):
    """What should be published: amounts by container number; condition bits and reasons to write by VPA number.

    `shortages` says of VPAs with little confidence which container has the least history.
    """

    amounts: FloatColumn
    truth: IntColumn
    reasons: IntColumn
    shortages: Mapping[int, Shortage]


def status_writes(due: Sequence[int], desired: Desired, board: Board, now: float) -> Iterator[StatusWrite]:
    """The writes for some VPA numbers."""
    vpas, containers = board.vpas, board.containers
    recommended = (~np.isnan(desired.amounts[TARGET]).all(axis=0)).tolist()
    listed = [[each for each in vpas.entries[number].containers if recommended[each]] for number in due]
    order = [container for each in listed for container in each]
    amounts = desired.amounts[:, :, order]
    names = [key.container for key in containers.keys(order)]
    spelled = {at: containers.spelled[number] for at, number in enumerate(order) if number in containers.spelled}
    documents = container_documents(names, amounts, spelled)
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
            "conditions": condition_documents(entry, truth, desired.shortages.get(number), time, sizes_any=sizes_any),
            "observedGeneration": vpa.generation,
        }
        yield StatusWrite(
            namespace=vpa.namespace,
            name=vpa.name,
            uid=vpa.uid,
            resource_version=vpa.resource_version,
            created=vpa.created,
            status=status,
            first=bool(truth & Holds.PROVIDED) and not vpas.ever[number],
            reasons=reasons_of(int(desired.reasons[number])),
            containers=tuple(names[begin:end]),
            amounts=amounts[:, :, begin:end],
            truth=truth,
            said=int(vpas.said[number]),
        )
        begin = end


def container_documents(
    names: Sequence[str], amounts: FloatColumn, spelled: Mapping[int, Mapping[tuple[str, float], str]]
) -> list[dict[str, Any]]:
    """The entries of several statuses, one after the other."""
    targets = resource_texts(amounts[TARGET])
    documents: list[dict[str, Any]] = [
        {"containerName": name, "target": target} for name, target in zip(names, targets, strict=True)
    ]
    for what in (LOWER_BOUND, UPPER_BOUND, UNCAPPED, TOTAL):
        field = PUBLISHED_AS[what]
        found = _uncapped_texts(amounts, targets) if what == UNCAPPED else resource_texts(amounts[what])
        for document, texts in zip(documents, found, strict=True):
            if texts:
                document[field] = texts
    for at, texts_of in spelled.items():
        _respell(documents[at], amounts[:, :, at], texts_of)
    return documents


def _uncapped_texts(amounts: FloatColumn, targets: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Those of the targets, where no policy cut them: that is nearly everywhere."""
    texts = list(targets)
    cut = np.flatnonzero((np.nan_to_num(amounts[UNCAPPED]) != np.nan_to_num(amounts[TARGET])).any(axis=0))
    for at, own in zip(cut.tolist(), resource_texts(amounts[UNCAPPED][:, cut]), strict=True):
        texts[at] = own
    return texts


def resource_texts(amounts: FloatColumn) -> list[dict[str, str]]:
    """Amounts (resource, container) as they are written, without those that are NaN."""
    cpu, memory = amounts
    no_cpu, no_memory = np.isnan(cpu), np.isnan(memory)
    if no_cpu.all() and no_memory.all():
        return [{}] * len(cpu)
    pairs = zip(cpu_texts(cpu), memory_texts(memory), strict=True)
    found = [{"cpu": cores, "memory": amount} for cores, amount in pairs]
    for at in np.flatnonzero(no_cpu).tolist():
        del found[at]["cpu"]
    for at in np.flatnonzero(no_memory).tolist():
        del found[at]["memory"]
    return found


def _respell(document: dict[str, Any], amounts: FloatColumn, spelled: Mapping[tuple[str, float], str]) -> None:
    for field, row in zip(PUBLISHED_AS, amounts, strict=True):
        for resource, which in (("cpu", CPU), ("memory", MEMORY)):
            text = spelled.get((resource, float(row[which])))
            if text is not None:
                document[field] = document[field] | {resource: text}
