"""Statuses of VerticalPodAutoscalers: when they are written, and the documents to write.

A status is written at once when the target, the uncapped target or the total moved by more than `change_threshold` of
what is published, when a bound moved away from the target by as much, when a value appears or vanishes, or when the
conditions, a condition's message or the generation changed. What is published has full precision; the threshold says
when to write and not what.

Bounds come closer to the target with every sample of a new container: by confidence alone the upper one falls from a
thousand times the target to twice of it within a day. That narrowing is written at once only when it exceeds
`narrowing_threshold`, which makes ten writes of it. A bound that is published too wide keeps pods from being touched;
it does no harm for a while.

Smaller changes are written once the status is old. `max_age` is the most that a difference, however small, stays
unpublished; each object waits for a share of it that depends on its name, between a half and all of it, so that objects
that were written together once are not written together for ever.

A document is that of a merge patch. Its list of containers is sorted by name. Without recommendations it is removed,
which leaves `recommendation: {}` as upstream writes it. An amount that a policy set is spelled as the policy spells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trellis.base.reasons import Reason
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
from trellis.core.recommend.publish.conditions import HistoryShortage, build_conditions, mark_owners
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.condition_types import (
    ConditionBit,
)
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

GENERATION_OBSERVED = Reason("GenerationObserved", "The spec of the object changed since its status was written.")
CONDITIONS_CHANGED = Reason("ConditionsChanged", "A condition changed, or its message changed significantly.")
RECOMMENDED_VALUES_CHANGED = Reason(
    "RecommendedValuesChanged", "A container or a resource was added, or is no longer recommended."
)
TARGET_MOVED = Reason("TargetMoved", "A target or a total changed by more than the threshold.")
BOUNDS_MOVED = Reason("BoundsMoved", "A bound widened or narrowed by more than its threshold.")
STATUS_REFRESHED = Reason("StatusRefreshed", "A smaller change was written because the status is old.")

# In the order of their bits.
WRITE_REASONS = (
    GENERATION_OBSERVED,
    CONDITIONS_CHANGED,
    RECOMMENDED_VALUES_CHANGED,
    TARGET_MOVED,
    BOUNDS_MOVED,
    STATUS_REFRESHED,
)
_ESTIMATES = [TARGET, UNCAPPED, TOTAL]


def find_write_reasons(
    amounts: FloatColumn, conditions: IntColumn, store: VpaStore, settings: PipelineSettings, now: float
) -> IntColumn:
    """The reasons to write each VPA, as bits of `WRITE_REASONS`; 0 without any."""
    vpas, containers = store.vpas, store.containers
    reach = vpas.numbers_end
    owners = containers.vpa[: containers.numbers_end]
    differences = _compare_amounts(amounts, containers.published[:, :, : containers.numbers_end], settings)
    vpas.written_at[vpas.used & np.isnan(vpas.written_at)] = now  # as old as it is known
    is_old = now - vpas.written_at[:reach] >= settings.max_age * vpas.max_age_share[:reach]
    causes = (
        vpas.observed_generation[:reach] != vpas.generation[:reach],
        (conditions != vpas.published_conditions[:reach])
        | (vpas.desired_messages[:reach] != vpas.published_messages[:reach]),
        mark_owners(differences.appeared_or_vanished, owners, reach),
        mark_owners(differences.moved, owners, reach),
        mark_owners(differences.bounds_moved, owners, reach),
        is_old & mark_owners(differences.changed, owners, reach),
    )
    reasons = np.zeros(reach, dtype=np.int64)
    for bit, cause in enumerate(causes):
        reasons |= cause.astype(np.int64) << bit
    reasons[~vpas.find_active()] = 0
    return reasons


def decode_write_reasons(bits: int) -> tuple[Reason, ...]:
    """The reasons that bits stand for."""
    return tuple(reason for bit, reason in enumerate(WRITE_REASONS) if bits >> bit & 1)


class _AmountDifferences(NamedTuple):
    """Masks of containers by the kind of change."""

    appeared_or_vanished: BoolColumn
    moved: BoolColumn
    bounds_moved: BoolColumn
    changed: BoolColumn


def _compare_amounts(amounts: FloatColumn, before: FloatColumn, settings: PipelineSettings) -> _AmountDifferences:
    step = amounts - before
    change_limits = before * settings.change_threshold
    narrowing_limits = before * settings.narrowing_threshold
    estimates = np.abs(step[_ESTIMATES]) > change_limits[_ESTIMATES]
    low, high = step[LOWER_BOUND], step[UPPER_BOUND]
    bounds = (low > narrowing_limits[LOWER_BOUND]) | (low < -change_limits[LOWER_BOUND])
    bounds |= (high > change_limits[UPPER_BOUND]) | (high < -narrowing_limits[UPPER_BOUND])
    return _AmountDifferences(
        appeared_or_vanished=np.any(np.isnan(amounts) != np.isnan(before), axis=(0, 1)),
        moved=np.any(estimates, axis=(0, 1)),
        bounds_moved=np.any(bounds, axis=0),
        changed=np.any(np.nan_to_num(step), axis=(0, 1)),
    )


class DesiredStatuses(msgspec.Struct, frozen=True):
    """The desired statuses: amounts by container number; condition bits and reasons to write by VPA number.

    `shortages` says of VPAs with little confidence which container has the least history.
    """

    amounts: FloatColumn
    conditions: IntColumn
    reasons: IntColumn
    shortages: Mapping[int, HistoryShortage]


def build_status_writes(
    numbers: Sequence[int], desired: DesiredStatuses, store: VpaStore, now: float
) -> Iterator[VpaStatusWrite]:
    """The writes for some VPA numbers."""
    vpas, containers = store.vpas, store.containers
    recommended = (~np.isnan(desired.amounts[TARGET]).all(axis=0)).tolist()
    containers_by_vpa = [
        [container for container in vpas.entries[number].containers if recommended[container]] for number in numbers
    ]
    order = [container for containers in containers_by_vpa for container in containers]
    amounts = desired.amounts[:, :, order]
    names = [key.container for key in containers.keys(order)]
    bound_texts = {
        at: containers.bound_texts[number] for at, number in enumerate(order) if number in containers.bound_texts
    }
    documents = build_container_recommendations(names, amounts, bound_texts)
    time = format_time(datetime.fromtimestamp(now, UTC))
    begin = 0
    for number, vpa_containers in zip(numbers, containers_by_vpa, strict=True):
        end = begin + len(vpa_containers)
        entry, conditions = vpas.entries[number], int(desired.conditions[number])
        vpa = entry.vpa
        # Where anything is recommended, something is to be sized.
        sizes_any = bool(vpa_containers) or vpa.sizes_any_container(map(containers.find_name, entry.containers))
        status = {
            # Null, because a merge patch would leave the list of before under an empty object.
            "recommendation": {"containerRecommendations": documents[begin:end] or None},
            "conditions": build_conditions(entry, conditions, desired.shortages.get(number), time, sizes_any=sizes_any),
            "observedGeneration": vpa.generation,
        }
        yield VpaStatusWrite(
            namespace=vpa.namespace,
            name=vpa.name,
            uid=vpa.uid,
            resource_version=vpa.resource_version,
            created=vpa.created,
            status=status,
            is_first=bool(conditions & ConditionBit.PROVIDED) and not vpas.was_recommended[number],
            reasons=decode_write_reasons(int(desired.reasons[number])),
            containers=tuple(names[begin:end]),
            amounts=amounts[:, :, begin:end],
            conditions=conditions,
            messages_digest=int(vpas.desired_messages[number]),
        )
        begin = end


def build_container_recommendations(
    names: Sequence[str], amounts: FloatColumn, bound_texts: Mapping[int, Mapping[tuple[str, float], str]]
) -> list[dict[str, Any]]:
    """The entries of several statuses, one after the other."""
    targets = format_resources(amounts[TARGET])
    documents: list[dict[str, Any]] = [
        {"containerName": name, "target": target} for name, target in zip(names, targets, strict=True)
    ]
    for row in (LOWER_BOUND, UPPER_BOUND, UNCAPPED, TOTAL):
        field = STATUS_FIELDS[row]
        formatted = _format_uncapped(amounts, targets) if row == UNCAPPED else format_resources(amounts[row])
        for document, texts in zip(documents, formatted, strict=True):
            if texts:
                document[field] = texts
    for at, policy_texts in bound_texts.items():
        _keep_policy_spelling(documents[at], amounts[:, :, at], policy_texts)
    return documents


def _format_uncapped(amounts: FloatColumn, targets: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The texts of uncapped targets: those of the targets, except where a policy capped them."""
    texts = list(targets)
    capped = np.flatnonzero((np.nan_to_num(amounts[UNCAPPED]) != np.nan_to_num(amounts[TARGET])).any(axis=0))
    for at, resources in zip(capped.tolist(), format_resources(amounts[UNCAPPED][:, capped]), strict=True):
        texts[at] = resources
    return texts


def format_resources(amounts: FloatColumn) -> list[dict[str, str]]:
    """Amounts (resource, container) as they are written, without those that are NaN."""
    cpu, memory = amounts
    no_cpu, no_memory = np.isnan(cpu), np.isnan(memory)
    if no_cpu.all() and no_memory.all():
        return [{}] * len(cpu)
    pairs = zip(format_cpu_column(cpu), format_memory_column(memory), strict=True)
    documents = [{"cpu": cores, "memory": amount} for cores, amount in pairs]
    for at in np.flatnonzero(no_cpu).tolist():
        del documents[at]["cpu"]
    for at in np.flatnonzero(no_memory).tolist():
        del documents[at]["memory"]
    return documents


def _keep_policy_spelling(
    document: dict[str, Any], amounts: FloatColumn, bound_texts: Mapping[tuple[str, float], str]
) -> None:
    for field, row in zip(STATUS_FIELDS, amounts, strict=True):
        for resource, column in (("cpu", CPU), ("memory", MEMORY)):
            text = bound_texts.get((resource, float(row[column])))
            if text is not None:
                document[field] = document[field] | {resource: text}
