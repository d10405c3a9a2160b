"""Workloads by waste and by risk: their usage now beside what they request and what VPAs recommend.

What is wasted or at risk is what `trellis recommend` says of the same need: the recommendation of a workload's VPA, or
the usage now where that is higher or where there is none. One moment says little about a workload without a VPA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from trellis.base.prices import Prices, choose_weights
from trellis.base.reasons import Severity
from trellis.core.advice.advisor import advise, sum_advice
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.results import AdviceTotals, ContainerAdvice, WorkloadAdvice
from trellis.core.advice.sizes import MEMORY_AT_RISK, ORDER, WELL_SIZED
from trellis.core.advice.survey.estimates import estimate_from_vpas
from trellis.core.advice.survey.model import (
    Estimate,
    ResourceAmount,
    SurveyedContainer,
    SurveyedWorkload,
    SurveyResult,
)
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.workloads import find_workloads
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.store import ObjectKey
from trellis.core.usage.samples import Samples

# Usage beyond this share of a memory limit is close to an out-of-memory kill.
NEAR_LIMIT: Final = 0.9
_RANKS: Final = {Severity.ERROR: 2, Severity.WARNING: 1, Severity.INFO: 0}


class SortKey(StrEnum):
    """What workloads are sorted by, the most first."""

    WASTE = "waste"
    RISK = "risk"
    CPU = "cpu"
    MEMORY = "memory"
    COST = "cost"


class WorkloadWaste(msgspec.Struct, frozen=True, kw_only=True):
    """One workload, all its pods together: millicores and bytes; NaN is unknown.

    `waste` and `cost` are money for a month. `limit_share` is the highest share of a memory limit that a container of
    a pod uses. `risk` is the code of the worst reason, empty if no container is at risk.
    """

    namespace: str
    kind: str
    name: str
    pods: int
    usage: ResourceAmount
    requests: ResourceAmount
    recommended: ResourceAmount
    waste: float
    waste_weight: float
    cost: float
    limit_share: float
    risk: str = ""
    risk_rank: int = 0


class WasteTotals(msgspec.Struct, frozen=True, kw_only=True):
    """All workloads together."""

    pods: int
    usage: ResourceAmount
    requests: ResourceAmount
    waste: float
    cost: float


class WorkloadRanking(msgspec.Struct, frozen=True, kw_only=True):
    """The workloads in order, and what could not be read."""

    rows: tuple[WorkloadWaste, ...]
    totals: WasteTotals
    prices: Prices
    missing: tuple[MissingData, ...] = ()


class UsageNow(msgspec.Struct, frozen=True):
    """What a container uses in all pods of its workload together, and at most in one of them."""

    total: ResourceAmount
    highest: ResourceAmount


UsageByContainer = Mapping[tuple[str, str, str], UsageNow]


def rank_workloads(
    present: SurveyObjects,
    usage: Samples | None,
    workload_filter: WorkloadFilter,
    prices: Prices,
    sort_by: SortKey,
    *,
    names: Sequence[str] = (),
    now: float = 0.0,
) -> WorkloadRanking:
    """The workloads that the filter and the names select, the most wasteful or the riskiest first."""
    inventory = find_workloads(present, workload_filter)
    workloads = {key: item for key, item in inventory.workloads.items() if not names or _is_named(item, names)}
    used = sum_usage(usage, inventory.pods) if usage is not None else {}
    kills = {
        (kill.namespace, inventory.pods.get((kill.namespace, kill.pod)), kill.container) for kill in inventory.kills
    }
    by_vpa = {_key_of(item): item for item in estimate_from_vpas(workloads.values(), present.vpas)}
    recommended = {key: by_vpa.get(_key_of(item), item) for key, item in workloads.items()}
    needs = {key: _add_needs(item, key, used, kills) for key, item in recommended.items()}
    surveyed = SurveyResult(time=now, source="usage now", recommender="", workloads=tuple(needs.values()))
    advised = advise(surveyed, AdvicePolicy(), prices, now)
    rows = [
        _build_row(advice, recommended[key], used, key, prices)
        for advice, key in zip(advised.workloads, needs, strict=True)
    ]
    rows.sort(key=lambda row: (*(-value for value in _SORT_KEYS[sort_by](row)), row.namespace, row.name))
    return WorkloadRanking(
        rows=tuple(rows), totals=_sum_rows(rows, advised.total), prices=prices, missing=present.missing
    )


def _key_of(workload: SurveyedWorkload) -> tuple[str, str, str]:
    return workload.namespace, workload.kind, workload.name


def _is_named(workload: SurveyedWorkload, names: Iterable[str]) -> bool:
    """Whether one of the names is the workload's, alone or after its kind."""
    own = {workload.name, f"{workload.kind.lower()}/{workload.name}"}
    return any(name in own for name in names)


def sum_usage(samples: Samples, keys_by_pod: Mapping[ObjectKey, str]) -> UsageByContainer:
    """Usage by namespace, workload and container. Cores become millicores."""
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for number, (namespace, pod, container) in enumerate(
        zip(samples.namespaces, samples.pods, samples.containers, strict=True)
    ):
        workload = keys_by_pod.get((namespace, pod))
        if workload is not None:
            numbers.setdefault((namespace, workload, container), []).append(number)
    usage = {}
    for place, rows in numbers.items():
        cpu, memory = samples.cpu[rows] * 1000.0, samples.memory[rows]
        usage[place] = UsageNow(
            ResourceAmount(float(np.nansum(cpu)), float(np.nansum(memory))),
            ResourceAmount(float(np.nanmax(cpu, initial=0.0)), float(np.nanmax(memory, initial=0.0))),
        )
    return usage


def _add_needs(
    workload: SurveyedWorkload, key: ObjectKey, used: UsageByContainer, kills: set[tuple[str, str | None, str]]
) -> SurveyedWorkload:
    """The workload with the need of each container as its estimate."""
    containers = []
    for container in workload.containers:
        usage = used.get((*key, container.name))
        highest = usage.highest if usage is not None else ResourceAmount()
        target = container.estimate.target
        need = ResourceAmount(_larger(target.cpu, highest.cpu), _larger(target.memory, highest.memory))
        killed = (key[0], key[1], container.name) in kills
        containers.append(
            replace(
                container,
                highest=highest,
                estimate=Estimate(target=need, confidence=1.0),
                kills=max(container.kills, 1 if killed else 0),
            )
        )
    return replace(workload, containers=tuple(containers))


def _larger(first: float, second: float) -> float:
    """The larger of two amounts; of one that is unknown, the other."""
    if math.isnan(first):
        return second
    return first if math.isnan(second) else max(first, second)


def _build_row(
    advice: WorkloadAdvice, recommended: SurveyedWorkload, used: UsageByContainer, key: ObjectKey, prices: Prices
) -> WorkloadWaste:
    totals, weighed = sum_advice([advice], prices), sum_advice([advice], choose_weights(prices))
    usages = [used[place] for item in advice.containers if (place := (*key, item.surveyed.name)) in used]
    short = [item.reason for item in advice.containers if _is_short(item)]
    reason = min(short, key=ORDER.index, default=WELL_SIZED)
    shares = [_find_limit_share(item.surveyed) for item in advice.containers]
    limit_share = max((share for share in shares if not math.isnan(share)), default=math.nan)
    rank = _RANKS[reason.severity]
    if limit_share > NEAR_LIMIT:
        reason, rank = MEMORY_AT_RISK, _RANKS[MEMORY_AT_RISK.severity]
    workload = advice.surveyed
    is_known = any(not math.isnan(item.cpu.estimate + item.memory.estimate) for item in advice.containers)
    return WorkloadWaste(
        namespace=workload.namespace,
        kind=workload.kind,
        name=workload.name,
        pods=advice.pods,
        usage=_sum_amounts(usage.total for usage in usages) if usages else ResourceAmount(),
        requests=totals.before,
        recommended=_sum_recommended(recommended, advice.pods),
        waste=totals.money_saved if is_known else math.nan,
        waste_weight=weighed.money_saved,
        cost=totals.money_before,
        limit_share=limit_share,
        risk=reason.code if rank else "",
        risk_rank=rank,
    )


def _is_short(container: ContainerAdvice) -> bool:
    """Whether a container needs more than it requests, or was killed for lack of memory."""
    return container.difference.cpu > 0 or container.difference.memory > 0 or container.surveyed.kills > 0


def _find_limit_share(container: SurveyedContainer) -> float:
    limit = container.limit.memory
    return container.highest.memory / limit if limit > 0 else math.nan


def _sum_recommended(workload: SurveyedWorkload, pods: int) -> ResourceAmount:
    """What the VPA recommends for all pods; NaN without one."""
    targets = [container.estimate.target for container in workload.containers]
    known = [target for target in targets if not math.isnan(target.cpu) or not math.isnan(target.memory)]
    if not known:
        return ResourceAmount()
    total = _sum_amounts(known)
    return ResourceAmount(total.cpu * pods, total.memory * pods)


def _sum_amounts(amounts: Iterable[ResourceAmount]) -> ResourceAmount:
    known = [amount for amount in amounts if not (math.isnan(amount.cpu) and math.isnan(amount.memory))]
    if not known:
        return ResourceAmount()
    return ResourceAmount(
        math.fsum(amount.cpu for amount in known if not math.isnan(amount.cpu)),
        math.fsum(amount.memory for amount in known if not math.isnan(amount.memory)),
    )


def _sum_rows(rows: Sequence[WorkloadWaste], totals: AdviceTotals) -> WasteTotals:
    return WasteTotals(
        pods=totals.pods,
        usage=_sum_amounts(row.usage for row in rows),
        requests=totals.before,
        waste=totals.money_saved if any(not math.isnan(row.waste) for row in rows) else math.nan,
        cost=totals.money_before,
    )


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


_SORT_KEYS: Final[Mapping[SortKey, Callable[[WorkloadWaste], tuple[float, ...]]]] = {
    SortKey.WASTE: lambda row: (row.waste_weight,),
    SortKey.RISK: lambda row: (float(row.risk_rank), _known(row.limit_share)),
    SortKey.CPU: lambda row: (_known(row.usage.cpu),),
    SortKey.MEMORY: lambda row: (_known(row.usage.memory),),
    SortKey.COST: lambda row: (row.cost,),
}
