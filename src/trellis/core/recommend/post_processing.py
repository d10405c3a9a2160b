"""Post-processors of estimates: rounding, whole cores, retained recommendations, and capping by policy.

A published value is retained while there is no newer one: the container exists, but its recommender has no estimate (no
sample since a restart without history), or the VPA is held (its target is missing for a while, its parameters are
invalid, its recommender failed). The value of a removed container, or of a resource that the policy excludes, is not
retained. While the history of a VPA is being fetched, all values are.

Rounding is upwards, as by upstream's flags: no container gets less than its estimate.

There is one list of post-processors, which a pass runs for all containers at once, and which `explain` observes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.quantities import NANOS_PER_UNIT, Quantity
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import (
    CPU,
    LOWER,
    LOWER_BOUND,
    MEMORY,
    MIDDLE,
    MILLICORES_PER_CORE,
    RESOURCES,
    STATUS_FIELDS,
    TARGET,
    TOTAL,
    UNCAPPED,
    UPPER,
    UPPER_BOUND,
)
from trellis.core.recommend.capping.container import CAPPED_TO_MAX_ALLOWED, CAPPED_TO_MIN_ALLOWED
from trellis.core.recommend.capping.policy import (
    CAPPED_TO_CLUSTER_MAX,
    lower_to_cluster_maximum,
    lower_to_max_allowed,
    raise_to_min_allowed,
)
from trellis.core.recommend.estimation import PassEstimates
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.tables import NO_GROUP
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn


def round_up_to_cores(millicores: FloatColumn) -> FloatColumn:
    """The next whole core above."""
    return np.ceil(millicores / MILLICORES_PER_CORE) * MILLICORES_PER_CORE


RECOMMENDATION_KEPT = Reason("RecommendationKept", "There is no newer usage, so the previous recommendation is kept.")


_BINARY_UNITS = (("Ti", 1024.0**4), ("Gi", 1024.0**3), ("Mi", 1024.0**2), ("Ki", 1024.0))


def round_up(amounts: FloatColumn, step: int) -> FloatColumn:
    """The next multiple of the step; a step of 1, or one that makes no sense, changes nothing."""
    return amounts if step <= 1 else np.ceil(amounts / step) * step


def humanize_memory(amounts: FloatColumn) -> FloatColumn:
    """Bytes to two places of the largest binary unit, as upstream's deprecated `--humanize-memory` has them.

    The text of a float decides where it lies between two such numbers, so this goes through text; of each amount once.
    """
    unique_amounts, positions = np.unique(amounts, return_inverse=True)
    humanized = np.array([_humanize_amount(amount) for amount in unique_amounts.tolist()], dtype=np.float64)
    return humanized[positions].reshape(amounts.shape) if len(humanized) else amounts


def _humanize_amount(amount: float) -> float:
    for unit, size in _BINARY_UNITS:
        if amount >= size:
            return Quantity.parse(f"{amount / size:.2f}{unit}").nanos / NANOS_PER_UNIT
    return amount  # less than a unit, or none


RESOURCE_NOT_CONTROLLED = Reason(
    "ResourceNotControlled",
    "The container's policy does not control this resource, so nothing is recommended for it.",
)
ROUNDED_UP = Reason("RoundedUp", "The recommendation was rounded up to the multiple set by the recommender's flags.")
HUMANIZED = Reason("Humanized", "The recommendation was rounded up to an amount of memory with two decimals.")
WHOLE_CORES = Reason(
    "WholeCores", "The recommendation was rounded up to whole cores, as an annotation of the object asks for."
)

_CAPPED_FIELDS: Final = slice(TARGET, UPPER_BOUND + 1)


class PostProcessingContext(msgspec.Struct, frozen=True):
    """The input of post-processors beside the amounts."""

    estimates: PassEstimates
    store: VpaStore
    settings: PipelineSettings
    controlled: BoolColumn


class PostProcessor(msgspec.Struct, frozen=True):
    """A step that changes all amounts at once, in place, and the reason given for an amount that it changes."""

    reason: Reason
    apply: Callable[[FloatColumn, PostProcessingContext], None]


# Called with every stage and the amounts (what, resource, container number) that come of it.
AmountsObserver: TypeAlias = Callable[[Reason | None, FloatColumn], None]


def post_process(
    estimates: PassEstimates, store: VpaStore, settings: PipelineSettings, observer: AmountsObserver | None = None
) -> FloatColumn:
    """The amounts that should be published, (what, resource, container number).

    The `observer` is called with the estimates, without a reason, and after every stage.
    """
    containers = store.containers
    reach = containers.numbers_end
    amounts = np.empty((len(STATUS_FIELDS), len(RESOURCES), reach))
    amounts[TARGET] = amounts[UNCAPPED] = estimates.bounds[MIDDLE]
    amounts[LOWER_BOUND], amounts[UPPER_BOUND] = estimates.bounds[LOWER], estimates.bounds[UPPER]
    amounts[TOTAL] = np.where(store.vpas.totals[containers.vpa[:reach]], estimates.totals, np.nan)
    if observer is not None:
        observer(None, amounts)
    context = PostProcessingContext(estimates, store, settings, containers.find_controlled())
    for stage in POST_PROCESSORS:
        stage.apply(amounts, context)
        if observer is not None:
            observer(stage.reason, amounts)
    return amounts


def _remove_uncontrolled(amounts: FloatColumn, context: PostProcessingContext) -> None:
    amounts[:, ~context.controlled] = np.nan


def _round_to_multiples(amounts: FloatColumn, context: PostProcessingContext) -> None:
    if context.settings.round_cpu_millicores > 1:
        amounts[:, CPU] = round_up(amounts[:, CPU], context.settings.round_cpu_millicores)
    if context.settings.round_memory_bytes > 1:
        amounts[:, MEMORY] = round_up(amounts[:, MEMORY], context.settings.round_memory_bytes)


def _humanize_memory(amounts: FloatColumn, context: PostProcessingContext) -> None:
    if context.settings.humanize_memory:
        amounts[:, MEMORY] = humanize_memory(amounts[:, MEMORY])


def _round_to_whole_cores(amounts: FloatColumn, context: PostProcessingContext) -> None:
    containers = context.store.containers
    is_integer_cpu = containers.integer_cpu[: containers.numbers_end]
    if context.settings.integer_cpu and is_integer_cpu.any():
        amounts[:TOTAL, CPU, is_integer_cpu] = round_up_to_cores(amounts[:TOTAL, CPU, is_integer_cpu])


def _keep_published(amounts: FloatColumn, context: PostProcessingContext) -> None:
    containers, vpas = context.store.containers, context.store.vpas
    published = containers.published[:, :, : containers.numbers_end]
    is_held = vpas.problem | vpas.fetching | (vpas.group == NO_GROUP)
    is_held[list(context.estimates.failures)] = True
    is_kept = context.controlled & (context.estimates.live | is_held[containers.vpa[: containers.numbers_end]])
    is_kept &= np.isnan(amounts[TARGET]) & ~np.isnan(published[TARGET])
    if is_kept.any():
        amounts[:, is_kept] = published[:, is_kept]
    # The history that is being fetched outweighs the few samples since the start.
    fetching = vpas.fetching[containers.vpa[: containers.numbers_end]]
    amounts[:, :, fetching] = published[:, :, fetching]


def _raise_to_minimum(amounts: FloatColumn, context: PostProcessingContext) -> None:
    raise_to_min_allowed(amounts[_CAPPED_FIELDS], context.store.containers.stack_minimums())


def _lower_to_maximum(amounts: FloatColumn, context: PostProcessingContext) -> None:
    lower_to_max_allowed(amounts[_CAPPED_FIELDS], context.store.containers.stack_maximums())


def _lower_to_cluster(amounts: FloatColumn, context: PostProcessingContext) -> None:
    cluster = (context.settings.max_allowed_cpu, context.settings.max_allowed_memory)
    lower_to_cluster_maximum(amounts[_CAPPED_FIELDS], context.store.containers.stack_maximums(), cluster)


POST_PROCESSORS: Final = (
    PostProcessor(RESOURCE_NOT_CONTROLLED, _remove_uncontrolled),
    PostProcessor(ROUNDED_UP, _round_to_multiples),
    PostProcessor(HUMANIZED, _humanize_memory),
    PostProcessor(WHOLE_CORES, _round_to_whole_cores),
    PostProcessor(RECOMMENDATION_KEPT, _keep_published),
    PostProcessor(CAPPED_TO_MIN_ALLOWED, _raise_to_minimum),
    PostProcessor(CAPPED_TO_MAX_ALLOWED, _lower_to_maximum),
    PostProcessor(CAPPED_TO_CLUSTER_MAX, _lower_to_cluster),
)
