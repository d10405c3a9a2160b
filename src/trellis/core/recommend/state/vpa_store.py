"""The store of served VPAs: their desired and published state in columns.

The store belongs to its caller and is changed only here. Objects, states and results of writes come in one by one, in
any order, and cost little; what they mean is worked out at the next pass, for all that came at once. A VPA that did not
change costs a pass nothing but its places in the columns.

VPAs that chose the same recommender with the same values of its parameters are one group, estimated in one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from trellis.api.kinds.vpa import ContainerRecommendation
from trellis.core.recommend.amounts import TARGET
from trellis.core.recommend.capping.policy import PolicyBounds, compile_policy_bounds
from trellis.core.recommend.parameters import ParameterValue, ParameterValues, ReadParameters, read_parameters
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.state.condition_types import VpaState, read_conditions, read_transitions
from trellis.core.recommend.state.tables import (
    NO_GROUP,
    NOT_SERVED,
    ContainerTable,
    ServedVpa,
    ServedVpaTable,
    VpaEntry,
    VpaStatusWrite,
    has_integer_cpu_annotation,
    list_recommendations,
    read_published_amounts,
    read_shadow_names,
)
from trellis.core.recommend.validation import UnavailableRecommender
from trellis.core.usage.columns import IntColumn, RowKey

_GroupKey: TypeAlias = tuple[str, tuple[tuple[str, ParameterValue], ...]]


class RecommenderGroup(msgspec.Struct, frozen=True):
    """A recommender, by the name it is served under, and a value for each of its parameters."""

    recommender: str
    values: ParameterValues


class GroupAssignment(msgspec.Struct, frozen=True):
    """The group of a VPA, or why it has none."""

    group: int
    problem: str = ""


class RecommenderGroups:
    """All groups, numbered, for one set of recommenders."""

    def __init__(self) -> None:
        self._numbers: dict[_GroupKey, int] = {}
        self._groups: dict[int, RecommenderGroup] = {}
        self._without_parameters: dict[str, GroupAssignment] = {}
        self._next = 0

    def __getitem__(self, number: int) -> RecommenderGroup:
        return self._groups[number]

    def __len__(self) -> int:
        return len(self._groups)

    def assign(
        self, name: str, parameters: Mapping[str, str], recommenders: Mapping[str, Recommender]
    ) -> GroupAssignment:
        """The group of a VPA that names a recommender and gives it parameters."""
        if parameters:
            return self._assign_new(name, parameters, recommenders)
        if name not in self._without_parameters:
            self._without_parameters[name] = self._assign_new(name, parameters, recommenders)
        return self._without_parameters[name]

    def retain(self, numbers: Collection[int]) -> None:
        """Remove all other groups, which have no VPA."""
        self._groups = {number: group for number, group in self._groups.items() if number in numbers}
        self._numbers = {key: number for key, number in self._numbers.items() if number in numbers}
        self._without_parameters.clear()

    def _assign_new(
        self, name: str, parameters: Mapping[str, str], recommenders: Mapping[str, Recommender]
    ) -> GroupAssignment:
        recommender = recommenders.get(name)
        if recommender is None:
            return GroupAssignment(NOT_SERVED)
        # A recommender that cannot be loaded declares no parameters: those of its VPAs may be valid.
        is_loaded = not isinstance(recommender, UnavailableRecommender)
        read = read_parameters(recommender.parameters, parameters) if is_loaded else ReadParameters(dict(parameters))
        if read.problems:
            return GroupAssignment(NO_GROUP, read.message)
        key = (name, tuple(sorted(read.values.items())))
        if key not in self._numbers:
            self._numbers[key] = self._next
            self._groups[self._next] = RecommenderGroup(name, read.values)
            self._next += 1
        return GroupAssignment(self._numbers[key])


class MissingShadow(NamedTuple):
    """A recommender that a VPA wants as a shadow, and that does not run here."""

    recommender: str
    namespace: str
    vpa: str


class ShadowTable:
    """The shadow recommenders that VPAs name, by VPA number."""

    def __init__(self) -> None:
        self._shadow_names: dict[int, tuple[ServedVpa, tuple[str, ...]]] = {}

    def put(self, number: int, vpa: ServedVpa) -> None:
        """Add or update a VPA."""
        self.drop(number)
        names = read_shadow_names(vpa.annotations, vpa.recommender) if vpa.annotations else ()
        if names:
            self._shadow_names[number] = vpa, names

    def drop(self, number: int) -> None:
        """Remove a VPA."""
        self._shadow_names.pop(number, None)

    def group_by_recommender(self, hosted: Collection[str]) -> dict[str, list[int]]:
        """The VPAs that name each of the hosted recommenders."""
        shadowed: dict[str, list[int]] = {}
        for number, (_, names) in self._shadow_names.items():
            for name in names:
                if name in hosted:
                    shadowed.setdefault(name, []).append(number)
        return shadowed

    def find_missing(self, hosted: Collection[str]) -> list[MissingShadow]:
        """The shadow recommenders that VPAs name and that do not run here."""
        return [
            MissingShadow(name, vpa.namespace, vpa.name)
            for vpa, names in self._shadow_names.values()
            for name in names
            if name not in hosted
        ]


class VpaStore:
    """Served VPAs and their containers, numbered."""

    def __init__(self) -> None:
        self.vpas = ServedVpaTable()
        self.containers = ContainerTable()
        self.groups = RecommenderGroups()
        self.shadows = ShadowTable()
        self._recommenders: Mapping[str, Recommender] = {}
        self._edited: set[int] = set()
        self._state_changed: set[int] = set()
        self._status_changed: set[int] = set()
        self._keys: list[RowKey] = []
        self._container_numbers: IntColumn | None = None

    def __len__(self) -> int:
        return self.vpas.size

    def put(self, vpa: ServedVpa) -> None:
        """Add or update an object that is new or was changed, by our own writes too."""
        number = self.vpas.find((vpa.namespace, vpa.name))
        if number >= 0 and self.vpas.entries[number].vpa.uid != vpa.uid:  # deleted and made again
            self.drop(vpa.namespace, vpa.name)
            number = -1
        if number < 0:
            number = self.vpas.add_vpa(vpa)
            self._edited.add(number)
            self._status_changed.add(number)
            self._container_numbers = None
            return
        entry = self.vpas.entries[number]
        before, entry.vpa = entry.vpa, vpa
        if (before.generation, before.recommender) != (vpa.generation, vpa.recommender) or (
            before.annotations != vpa.annotations
        ):
            self._edited.add(number)
        # What our own write made comes back as an event, and is known already.
        if not vpa.resource_version or vpa.resource_version not in {before.resource_version, entry.written_version}:
            self._status_changed.add(number)

    def drop(self, namespace: str, name: str) -> None:
        """Remove an object that is gone, or is served by another process now."""
        number = self.vpas.find((namespace, name))
        if number < 0:
            return
        self.containers.release(np.array(self.vpas.entries[number].containers, dtype=np.int64))
        self.vpas.release(np.array([number], dtype=np.int64))
        self.shadows.drop(number)
        for changed in (self._edited, self._state_changed, self._status_changed):
            changed.discard(number)
        self._container_numbers = None

    def set_state(self, namespace: str, name: str, state: VpaState) -> None:
        """Set what is known of a VPA's target, before which nothing is written about it; ignored if it is not here."""
        number = self.vpas.find((namespace, name))
        if number >= 0 and self.vpas.entries[number].state != state:
            self.vpas.entries[number].state = state
            self._state_changed.add(number)

    def record_write(self, write: VpaStatusWrite, resource_version: str, now: float) -> None:
        """Record a write that was applied: from now on this is what is published."""
        self.record_writes([(write, resource_version)], now)

    def record_writes(self, written: Iterable[tuple[VpaStatusWrite, str]], now: float) -> None:
        """Record many writes, one for each VPA: columns are changed once."""
        numbers: list[int] = []
        writes: list[VpaStatusWrite] = []
        previous_containers: list[int] = []
        containers: list[int] = []
        for write, resource_version in written:
            number = self.vpas.find((write.namespace, write.name))
            if number < 0 or self.vpas.entries[number].vpa.uid != write.uid:
                continue
            entry = self.vpas.entries[number]
            containers += self._number_containers(number, write.containers)
            previous_containers += entry.containers
            numbers.append(number)
            writes.append(write)
            entry.transitions = read_transitions(write.status["conditions"])
            entry.written_version = resource_version
            if entry.vpa.resource_version in {
                write.resource_version,
                resource_version,
            }:  # else it was changed since
                self._status_changed.discard(number)
        if not writes:
            return
        self.containers.published[:, :, previous_containers] = np.nan
        self.containers.published[:, :, containers] = np.concatenate([write.amounts for write in writes], axis=2)
        vpas = self.vpas
        vpas.observed_generation[numbers] = [write.status["observedGeneration"] for write in writes]
        vpas.published_conditions[numbers] = [write.conditions for write in writes]
        vpas.published_messages[numbers] = [write.messages_digest for write in writes]
        vpas.written_at[numbers] = now
        vpas.was_recommended[numbers] |= [bool(write.containers) for write in writes]

    def apply_changes(self, recommenders: Mapping[str, Recommender]) -> None:
        """Update the columns by all objects and states that changed since the last pass."""
        if dict(recommenders) != self._recommenders:
            self._recommenders = dict(recommenders)
            self.groups = RecommenderGroups()
            self._edited.update(self.vpas.entries)
        for number in self._edited:
            self._assign_group(self.vpas.entries[number], number)
            self.shadows.put(number, self.vpas.entries[number].vpa)
        for number in self._edited | self._state_changed:
            self.vpas.update_columns(number)
        for number in self._edited:
            self._compile_policies(number, self.vpas.entries[number].containers)
        if self._edited:
            self.groups.retain(set(np.unique(self.vpas.group).tolist()))
        self._read_statuses()
        self._edited, self._state_changed, self._status_changed = set(), set(), set()

    def find_container_numbers(self, keys: list[RowKey]) -> IntColumn:
        """The container number of each row of a view; -1 for rows of VPAs that are not here."""
        # Equal lists of the same tuples compare by identity, 100,000 of them in half a millisecond.
        if self._container_numbers is None or keys != self._keys:
            self._container_numbers = self._match_containers(keys)
            self._keys = keys
        return self._container_numbers

    def record_failures(self, failures: Mapping[int, str]) -> None:
        """Record failures of recommenders in this pass, by VPA number; the others did not fail."""
        failed = set(np.flatnonzero(self.vpas.failed).tolist())
        for number in failed.union(failures):
            entry = self.vpas.entries[number]
            if entry.failure != failures.get(number, ""):
                entry.failure = failures.get(number, "")
                self.vpas.update_columns(number)

    def _number_containers(self, number: int, names: Iterable[str]) -> list[int]:
        """The containers of a VPA by name, which get a number if they have none."""
        vpa = self.vpas.entries[number].vpa
        keys = [RowKey(vpa.namespace, vpa.name, name) for name in names]
        numbers = [self.containers.find(key) for key in keys]
        if -1 not in numbers:
            return numbers
        self._add_containers(number, [key for key in keys if self.containers.find(key) < 0])
        return [self.containers.find(key) for key in keys]

    def _add_containers(self, number: int, keys: Sequence[RowKey]) -> None:
        if not keys:
            return
        entry = self.vpas.entries[number]
        added = [self.containers.add(key) for key in sorted(set(keys))]
        self.containers.vpa[added] = number
        entry.containers = (
            sorted(entry.containers + added, key=self.containers.find_name) if entry.containers else added
        )
        self._compile_policies(number, added)

    def _assign_group(self, entry: VpaEntry, number: int) -> None:
        assignment = self.groups.assign(entry.vpa.recommender, entry.vpa.effective.parameters, self._recommenders)
        self.vpas.group[number] = assignment.group
        entry.parameter_problem = assignment.problem

    def _compile_policies(self, number: int, containers: Sequence[int]) -> None:
        """Policies and annotations to columns; those of one policy are read once."""
        vpa = self.vpas.entries[number].vpa
        if not vpa.effective.containers and not vpa.annotations and number not in self._edited:
            return  # the columns begin with what no policy means
        compiled: dict[int, PolicyBounds] = {}
        for container in containers:
            name = self.containers.find_name(container)
            policy = vpa.effective.get_container(name)
            if id(policy) not in compiled:
                compiled[id(policy)] = compile_policy_bounds(policy)
            bounds = compiled[id(policy)]
            integer_cpu = bool(vpa.annotations) and has_integer_cpu_annotation(vpa.annotations, name)
            self.containers.set_policy(container, policy, bounds, integer_cpu=integer_cpu)

    def _read_statuses(self) -> None:
        """Stored statuses to columns."""
        recommendations: list[ContainerRecommendation] = []
        numbers: list[int] = []
        for number in self._status_changed:
            entry = self.vpas.entries[number]
            status = entry.vpa.status
            stored = read_conditions((status.conditions if status is not None else None) or ())
            entry.transitions = stored.transitions
            self.vpas.published_conditions[number], self.vpas.published_messages[number] = (
                stored.conditions,
                stored.messages_digest,
            )
            observed = status.observed_generation if status is not None else None
            self.vpas.observed_generation[number] = -1 if observed is None else observed
            if entry.containers:
                self.containers.published[:, :, entry.containers] = np.nan
            published = list_recommendations(status)
            recommendations += published
            numbers += self._number_containers(number, [recommendation.container_name for recommendation in published])
            self.vpas.was_recommended[number] |= bool(published)
        if numbers:
            self.containers.published[:, :, numbers] = read_published_amounts(recommendations)

    def _match_containers(self, keys: list[RowKey]) -> IntColumn:
        container_numbers = self.containers.lookup(keys)
        new: dict[int, list[RowKey]] = defaultdict(list)
        for position in np.flatnonzero(container_numbers < 0).tolist():
            key = keys[position]
            new[self.vpas.find((key.namespace, key.vpa))].append(key)
        new.pop(-1, None)
        for number, vpa_keys in new.items():
            self._add_containers(number, vpa_keys)
        if new:
            container_numbers = self.containers.lookup(keys)
        self._release_unused(container_numbers)
        return container_numbers

    def _release_unused(self, container_numbers: IntColumn) -> None:
        """Release containers that have neither a row nor a published recommendation."""
        idle = self.containers.used & np.isnan(self.containers.published[TARGET]).all(axis=0)
        idle[container_numbers[container_numbers >= 0]] = False
        numbers = np.flatnonzero(idle)
        for number in numbers.tolist():
            self.vpas.entries[int(self.containers.vpa[number])].containers.remove(number)
        self.containers.release(numbers)
