"""The tables of served VPAs and of their containers: a number each, with columns that every pass reads.

An entry of the VPA table has the rest. `VpaStatusWrite` is a status that should be written; once it is, the tables hold
what it published. Stored statuses are read for many VPAs at once, because a start reads all of them.

The annotation `vpa-post-processor.kubernetes.io/<container>_integerCPU: "true"` is upstream's, for nodes whose CPU
manager pins containers to cores: such a container gets whole CPUs. It is heeded only where a setting of the recommender
says so.

Another annotation names shadow recommenders, which estimate the same rows and whose estimates are never applied:

    metadata:
      annotations:
        trellis.x-k8s.io/shadow-recommenders: seasonal,window
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.kinds.vpa import ContainerRecommendation, VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.api.resolve import WRITTEN_MODES, EffectiveContainerPolicy, EffectiveVpa, resolve_vpa
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import (
    CPU,
    LARGEST_EXACT_AMOUNT,
    MEMORY,
    RESOURCES,
    STATUS_FIELDS,
    parse_cpu_column,
    parse_memory_column,
)
from trellis.core.recommend.capping.policy import PolicyBounds
from trellis.core.recommend.state.condition_types import ConditionMessages, ConditionTransition, VpaState
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, KeyedTable, RowKey
from trellis.core.usage.state import VpaKey

NO_ANNOTATIONS: Mapping[str, str] = {}


class ServedVpa(msgspec.Struct, frozen=True, gc=False):
    """The object as it was last seen. `created` is seconds since the epoch; `recommender` is the name it chose."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: float
    effective: EffectiveVpa
    recommender: str
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    status: VerticalPodAutoscalerStatus | None = None

    def sizes_any_container(self, containers: Iterable[str]) -> bool:
        """Whether any of its containers is to be sized; while it has none, one may come that is."""
        policies = [self.effective.get_container(name) for name in containers]
        return not policies or any(policy.is_scaled and policy.controlled for policy in policies)


def read_served_vpa(vpa: VerticalPodAutoscaler, previous: ServedVpa | None) -> ServedVpa:
    """Read a VPA; its effective policy is only resolved again when its generation changes, because it is costly."""
    metadata = vpa.metadata
    same = previous is not None and (previous.uid, previous.generation) == (metadata.uid, metadata.generation)
    effective = previous.effective if previous is not None and same else resolve_vpa(vpa)
    created = metadata.creation_timestamp
    return ServedVpa(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        created=created.timestamp() if created else math.nan,
        effective=effective,
        recommender=effective.recommender,
        annotations=metadata.annotations,
        status=vpa.status,
    )


class VpaStatusWrite(msgspec.Struct, frozen=True, gc=False):
    """A status that should be written, and why.

    `status` is whole, as the document of a merge patch: what should vanish is null. `is_first` is the object's first
    recommendation ever, `created` when it was made. The rest is what the store records once it is written.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    status: dict[str, Any]
    is_first: bool
    reasons: tuple[Reason, ...]
    containers: tuple[str, ...]
    amounts: FloatColumn
    conditions: int
    messages_digest: int


NOT_SERVED = -2  # a recommender that does not run here was named
NO_GROUP = -1  # its parameters cannot be used


class VpaEntry(msgspec.Struct, gc=False):
    """The state of a VPA that is read only when its status is written.

    `containers` are its numbers in the order of their names. `written_version` is the resource version that our last
    write made. `parameter_problem` is what is wrong with its parameters, `failure` what its recommender did.
    """

    vpa: ServedVpa
    containers: list[int]
    state: VpaState | None = None
    transitions: dict[str, ConditionTransition] = {}
    parameter_problem: str = ""
    failure: str = ""
    messages: ConditionMessages = ConditionMessages()
    written_version: str = ""

    @property
    def generation(self) -> int:
        """The generation of the object as last observed."""
        return self.vpa.generation


class ServedVpaTable(KeyedTable[VpaKey]):
    """Desired and published state of VPAs."""

    initial_values = {
        "generation": -1,
        "observed_generation": -1,
        "mode": 0,
        "group": NOT_SERVED,
        "pods": -1,
        "problem": False,
        "fetching": False,
        "history_unavailable": False,
        "boost_unavailable": False,
        "rivals": False,
        "totals": False,
        "failed": False,
        "desired_messages": 0,
        "published_messages": 0,
        "published_conditions": -1,
        "was_recommended": False,
        "written_at": math.nan,
        "max_age_share": 1.0,
    }

    generation: IntColumn
    observed_generation: IntColumn
    mode: IntColumn
    group: IntColumn
    """The number of its group in `RecommenderGroups`, or `NO_GROUP`, or `NOT_SERVED`."""
    pods: IntColumn
    """-1 before the state of the target is known."""
    problem: BoolColumn
    fetching: BoolColumn
    history_unavailable: BoolColumn
    """Whether past usage could not be fetched."""
    boost_unavailable: BoolColumn
    """Whether containers are not boosted although the object asks for it."""
    rivals: BoolColumn
    totals: BoolColumn
    failed: BoolColumn
    desired_messages: IntColumn
    """Digest of the condition messages that the status should have."""
    published_messages: IntColumn
    """Digest of the condition messages in the stored status."""
    published_conditions: IntColumn
    """The conditions published as true, as bits; -1 without a readable list."""
    was_recommended: BoolColumn
    """Whether it ever had a recommendation."""
    written_at: FloatColumn
    """The time at which the status was written, or first observed."""
    max_age_share: FloatColumn
    """The share of the maximum age after which small changes are written; it differs by object, to spread writes."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, VpaEntry] = {}

    def add_vpa(self, vpa: ServedVpa) -> int:
        """A number for an object."""
        number = self.add((vpa.namespace, vpa.name))
        self.entries[number] = VpaEntry(vpa, [])
        self.max_age_share[number] = 0.5 + (zlib.crc32(f"{vpa.namespace}/{vpa.name}".encode()) % 1024) / 2048
        return number

    def release(self, numbers: IntColumn) -> None:
        """Forget objects."""
        super().release(numbers)
        for number in numbers.tolist():
            del self.entries[number]

    def find_active(self) -> BoolColumn:
        """Mask of the numbers of VPAs that this process serves and whose targets were read."""
        reach = self.numbers_end
        is_active: BoolColumn = self.used[:reach] & (self.group[:reach] != NOT_SERVED) & (self.pods[:reach] >= 0)
        return is_active

    def update_columns(self, number: int) -> None:
        """Write the current entry of a VPA into the columns."""
        entry = self.entries[number]
        state = entry.state
        self.generation[number] = entry.vpa.generation
        self.mode[number] = WRITTEN_MODES.index(entry.vpa.effective.written_mode)
        if state is not None:
            self.pods[number] = state.pods
            self.problem[number] = bool(state.problem)
            self.fetching[number] = state.fetching_history
            self.history_unavailable[number] = bool(state.history_problem)
            self.boost_unavailable[number] = bool(state.boost_problem)
            self.rivals[number] = bool(state.rivals)
            self.totals[number] = state.publishes_totals
        self.failed[number] = bool(entry.failure)
        entry.messages = ConditionMessages.build(state or VpaState(0), entry.parameter_problem, entry.failure)
        self.desired_messages[number] = entry.messages.digest()


class ContainerTable(KeyedTable[RowKey]):
    """Policies compiled once, and the amounts of the status that is stored, (what, resource, number)."""

    initial_values = {
        "vpa": -1,
        "scaled": True,
        "cpu": True,
        "memory": True,
        "integer_cpu": False,
        "least_cpu": 0.0,
        "least_memory": 0.0,
        "most_cpu": math.nan,
        "most_memory": math.nan,
    }

    vpa: IntColumn
    scaled: BoolColumn
    """False under `mode: Off`."""
    cpu: BoolColumn
    """Whether it is among the controlled resources."""
    memory: BoolColumn
    integer_cpu: BoolColumn
    """Whether an annotation asks for whole CPUs."""
    least_cpu: FloatColumn
    least_memory: FloatColumn
    most_cpu: FloatColumn
    most_memory: FloatColumn

    def __init__(self) -> None:
        super().__init__()
        self.published: FloatColumn = np.full((len(STATUS_FIELDS), len(RESOURCES), 0), np.nan)
        # How bounds are spelled, where it matters; most containers have none.
        self.bound_texts: dict[int, dict[tuple[str, float], str]] = {}

    def lookup(self, keys: Sequence[RowKey]) -> IntColumn:
        """The number of each key; -1 where there is none."""
        return np.fromiter(map(self._numbers.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def find_name(self, number: int) -> str:
        """The name of a container."""
        return self.keys((number,))[0].container

    def set_policy(
        self, number: int, policy: EffectiveContainerPolicy, bounds: PolicyBounds, *, integer_cpu: bool
    ) -> None:
        """Put a container's policy into the columns."""
        self.scaled[number] = policy.is_scaled
        self.cpu[number], self.memory[number] = (resource in policy.controlled for resource in RESOURCES)
        self.integer_cpu[number] = integer_cpu
        self.least_cpu[number], self.least_memory[number] = bounds.least
        self.most_cpu[number], self.most_memory[number] = bounds.most
        self.bound_texts.pop(number, None)
        if bounds.texts:
            self.bound_texts[number] = dict(bounds.texts)

    def stack_minimums(self) -> FloatColumn:
        """Lower ends of the policies, (resource, number), of all numbers ever in use."""
        return np.stack([self.least_cpu[: self.numbers_end], self.least_memory[: self.numbers_end]])

    def stack_maximums(self) -> FloatColumn:
        """Upper ends of the policies, (resource, number), of all numbers ever in use."""
        return np.stack([self.most_cpu[: self.numbers_end], self.most_memory[: self.numbers_end]])

    def find_controlled(self) -> BoolColumn:
        """Mask of the resources that are recommended, (resource, number)."""
        controlled = np.empty((len(RESOURCES), self.numbers_end), dtype=np.bool_)
        np.logical_and(self.cpu[: self.numbers_end], self.scaled[: self.numbers_end], out=controlled[CPU])
        np.logical_and(self.memory[: self.numbers_end], self.scaled[: self.numbers_end], out=controlled[MEMORY])
        return controlled

    def release(self, numbers: IntColumn) -> None:
        """Give numbers back and forget what was published for them."""
        super().release(numbers)
        self.published[:, :, numbers] = np.nan
        for number in numbers.tolist():
            self.bound_texts.pop(number, None)

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        published = np.full((*self.published.shape[:2], capacity), np.nan)
        published[:, :, : self.published.shape[2]] = self.published
        self.published = published


def list_recommendations(status: VerticalPodAutoscalerStatus | None) -> Sequence[ContainerRecommendation]:
    """The entries of a status, if it has any."""
    if status is None or status.recommendation is None:
        return ()
    return status.recommendation.container_recommendations or ()


def read_published_amounts(recommendations: Sequence[ContainerRecommendation]) -> FloatColumn:
    """Published amounts, (what, resource, entry); NaN where absent or unreadable."""
    amounts = np.full((len(STATUS_FIELDS), len(RESOURCES), len(recommendations)), np.nan)
    parts = [
        (
            recommendation.target,
            recommendation.lower_bound,
            recommendation.upper_bound,
            recommendation.uncapped_target,
            recommendation.total_target,
        )
        for recommendation in recommendations
    ]
    for field, column in enumerate(zip(*parts, strict=True)):
        if any(column):
            amounts[field, CPU] = parse_cpu_column([_read_quantity(quantities, "cpu") for quantities in column])
            amounts[field, MEMORY] = parse_memory_column(
                [_read_quantity(quantities, "memory") for quantities in column]
            )
    np.minimum(amounts, LARGEST_EXACT_AMOUNT, out=amounts)
    return amounts


def _read_quantity(amounts: Mapping[str, str | int] | None, resource: str) -> str | None:
    text = amounts.get(resource) if amounts else None
    return text if text is None or isinstance(text, str) else str(text)


INTEGER_CPU_PREFIX = "vpa-post-processor.kubernetes.io/"
INTEGER_CPU_SUFFIX = "_integerCPU"


def has_integer_cpu_annotation(annotations: Mapping[str, str], container: str) -> bool:
    """Whether the annotation is there."""
    return annotations.get(f"{INTEGER_CPU_PREFIX}{container}{INTEGER_CPU_SUFFIX}") == "true"


SHADOW_RECOMMENDERS: Final = "trellis.x-k8s.io/shadow-recommenders"


def read_shadow_names(annotations: Mapping[str, str], served_by: str) -> tuple[str, ...]:
    """The names in the annotation, each once, without that of the recommender itself."""
    text = annotations.get(SHADOW_RECOMMENDERS, "")
    names = dict.fromkeys(name.strip() for name in text.split(","))
    return tuple(name for name in names if name and name != served_by)
