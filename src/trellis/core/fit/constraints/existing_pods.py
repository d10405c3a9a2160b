"""The pods on each node, counted as affinity, anti-affinity and topology spread count them.

Pods with equal profiles are counted together, node by node. The pods that a rule counts are a column over all nodes,
built on first use and kept current as pods are added and removed: a pod changes only the columns that count it.
Profiles are indexed by a label once a rule selects by that label: a namespace can have thousands of profiles, and as
many rules that each select one.

Numbers are those of one table, as in an occupancy: `clear` the number of a removed node before it stands for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.selectors import Selector
from trellis.core.fit.constraints.pod_affinity import PodProfile, PodQuery, PodTerm
from trellis.core.fit.constraints.selector_index import LabelSelectorIndex
from trellis.core.fit.node_table import NodeTable
from trellis.core.usage.columns import IntColumn


class AffinityPodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods that match all of the queries, terminating pods included."""

    queries: tuple[PodQuery, ...]

    @property
    def selector(self) -> Selector:
        """The selector of one of the queries, which narrows the candidates."""
        return self.queries[0].selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in; None for any."""
        query = self.queries[0]
        return query.namespaces if query.namespace_selector.selects_nothing else None

    def counts(self, profile: PodProfile, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod matches."""
        return all(query.matches(profile.namespace, namespace_labels, labels) for query in self.queries)


class SpreadPodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods of one namespace that are not terminating, as topology spread counts them."""

    namespace: str
    selector: Selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in."""
        return (self.namespace,)

    def counts(self, profile: PodProfile, labels: Labels, _namespace_labels: Labels) -> bool:
        """Whether a pod matches."""
        return profile.namespace == self.namespace and not profile.leaving and self.selector.matches(labels)


class AntiAffinityHolders(msgspec.Struct, frozen=True, gc=False):
    """Pods that have this anti-affinity term."""

    term: PodTerm


# The queries by labels of a pod, and all queries.
LabelPodQuery: TypeAlias = AffinityPodQuery | SpreadPodQuery
PodCountQuery: TypeAlias = LabelPodQuery | AntiAffinityHolders


CountColumn = npt.NDArray[np.int32]

# Labels of namespaces that are indexed; pods can refer to any.
_MAX_INDEXES: Final = 1024


class ProfileCounts:
    """The number of pods with one profile on each node, and the columns that count them."""

    __slots__ = ("columns", "labels", "node_counts", "profile")

    def __init__(self, profile: PodProfile) -> None:
        self.profile = profile
        self.labels = dict(profile.labels)
        self.node_counts: dict[int, int] = {}
        self.columns: list[CountColumn] = []


class ProfileIndex:
    """All profiles with their counts, by namespace."""

    def __init__(self) -> None:
        self._profiles: dict[str, dict[PodProfile, ProfileCounts]] = {}
        # By namespace and name of a label, then by its value.
        self._indexes: dict[tuple[str, str], dict[str, dict[ProfileCounts, None]]] = {}

    def __iter__(self) -> Iterator[ProfileCounts]:
        return chain.from_iterable(entries.values() for entries in self._profiles.values())

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have pods."""
        return list(self._profiles)

    def find(self, profile: PodProfile) -> ProfileCounts | None:
        """The counts of a profile."""
        return self._profiles.get(profile.namespace, {}).get(profile)

    def add(self, entry: ProfileCounts) -> None:
        namespace = entry.profile.namespace
        self._profiles.setdefault(namespace, {})[entry.profile] = entry
        for key, value in entry.profile.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                index.setdefault(value, {})[entry] = None

    def drop(self, entry: ProfileCounts) -> None:
        namespace = entry.profile.namespace
        del self._profiles[namespace][entry.profile]
        for key, value in entry.profile.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                del index[value][entry]
                if not index[value]:
                    del index[value]
        if not self._profiles[namespace]:
            del self._profiles[namespace]

    def candidates(self, namespace: str, selector: Selector) -> Iterable[ProfileCounts]:
        """The entries of one namespace that a selector may select."""
        entries = self._profiles.get(namespace, {})
        if not selector.value_requirements or not entries:
            return entries.values()
        requirement = selector.value_requirements[0]
        index = self._index(namespace, requirement.key)
        return chain.from_iterable(index.get(value, {}) for value in requirement.values)

    def _index(self, namespace: str, key: str) -> dict[str, dict[ProfileCounts, None]]:
        index = self._indexes.get((namespace, key))
        if index is None:
            if len(self._indexes) >= _MAX_INDEXES:
                self._indexes.clear()
            index = self._indexes[namespace, key] = {}
            for entry in self._profiles[namespace].values():
                if key in entry.labels:
                    index.setdefault(entry.labels[key], {})[entry] = None
        return index


# The columns that are kept; with 5,000 nodes they occupy 64 MB at most.
_MAX_COLUMNS: Final = 2048

_NONE: Final[Mapping[str, Labels]] = {}


class ExistingPods:
    """The pods on the nodes of one table. `namespaces` has the labels of namespaces, which some rules go by."""

    def __init__(
        self,
        table: NodeTable,
        placed: Iterable[tuple[int, PodProfile]] = (),
        namespaces: Mapping[str, Labels] = _NONE,
    ) -> None:
        self._table = table
        self._namespaces = dict(namespaces)
        self._profiles = ProfileIndex()
        self._columns: dict[PodCountQuery, CountColumn] = {}
        self._query_index: LabelSelectorIndex[LabelPodQuery] = LabelSelectorIndex()
        # The anti-affinity terms of placed pods, with the entries that have them.
        self._terms: dict[PodTerm, dict[ProfileCounts, None]] = {}
        self._anti_affinity_index: LabelSelectorIndex[PodTerm] = LabelSelectorIndex()
        self._capacity = table.capacity
        for number, profile in placed:
            self.add(number, profile)

    def put_namespace_labels(self, name: str, labels: Labels) -> None:
        """Set the labels of a namespace."""
        if self._namespaces.get(name, NOTHING) != labels:
            self._namespaces[name] = labels
            self._forget_columns()

    def namespace_labels(self, name: str) -> Labels:
        """The labels of a namespace; none for an unknown namespace."""
        return self._namespaces.get(name, NOTHING)

    def add(self, number: int, profile: PodProfile, times: int = 1) -> None:
        """Add a pod to a node, or remove it with -1 times. A negative number stands for no node."""
        if number < 0:
            return
        self._fit_columns()
        entry = self._get_entry(profile)
        _count(entry.node_counts, number, times)
        for column in entry.columns:
            column[number] += times
        if not entry.node_counts:
            self._drop_entry(entry)

    def add_many(self, numbers: IntColumn, profile: PodProfile, times: IntColumn) -> None:
        """Add equal pods to several distinct nodes, `times` to each."""
        self._fit_columns()
        entry = self._get_entry(profile)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            _count(entry.node_counts, number, count)
        for column in entry.columns:
            column[numbers] += times.astype(np.int32)
        if not entry.node_counts:
            self._drop_entry(entry)

    def remove(self, number: int, profile: PodProfile) -> None:
        """Remove a pod that was added with this profile."""
        self.add(number, profile, -1)

    def copy(self) -> ExistingPods:
        """A copy for a simulation."""
        copy = ExistingPods(self._table, namespaces=self._namespaces)
        for entry in self._profiles:
            copy._get_entry(entry.profile).node_counts = dict(entry.node_counts)
        return copy

    def clear(self, number: int) -> None:
        """Remove all pods from one node."""
        for entry in list(self._profiles):
            count = entry.node_counts.get(number)
            if count:
                self.add(number, entry.profile, -count)

    def counts(self, query: PodCountQuery) -> CountColumn:
        """The number of pods on each node that match a query; read-only."""
        self._fit_columns()
        column = self._columns.get(query)
        if column is None:
            column = self._build_column(query)
        return column[: self._table.numbers_end]

    def find_anti_affinity_terms(self, profile: PodProfile) -> list[PodTerm]:
        """The anti-affinity terms of placed pods that match a pod with this profile."""
        labels, namespace_labels = dict(profile.labels), self.namespace_labels(profile.namespace)
        candidates = self._anti_affinity_index.candidates(profile.namespace, labels)
        return [term for term in candidates if term.query.matches(profile.namespace, namespace_labels, labels)]

    def _get_entry(self, profile: PodProfile) -> ProfileCounts:
        entry = self._profiles.find(profile)
        if entry is None:
            entry = ProfileCounts(profile)
            self._profiles.add(entry)
            namespace_labels = self.namespace_labels(profile.namespace)
            for query in self._query_index.candidates(profile.namespace, entry.labels):
                if query.counts(profile, entry.labels, namespace_labels):
                    entry.columns.append(self._columns[query])
            self._add_terms(entry)
        return entry

    def _add_terms(self, entry: ProfileCounts) -> None:
        for term in set(entry.profile.anti_affinity):
            if term not in self._terms:
                self._terms[term] = {}
                self._anti_affinity_index.put(term, *_build_index_key(term))
            self._terms[term][entry] = None
            column = self._columns.get(AntiAffinityHolders(term))
            if column is not None:
                entry.columns.append(column)

    def _drop_entry(self, entry: ProfileCounts) -> None:
        self._profiles.drop(entry)
        for term in set(entry.profile.anti_affinity):
            del self._terms[term][entry]
            if not self._terms[term]:
                del self._terms[term]
                self._anti_affinity_index.drop(term, *_build_index_key(term))

    def _build_column(self, query: PodCountQuery) -> CountColumn:
        if len(self._columns) >= _MAX_COLUMNS:
            self._forget_columns()
        column: CountColumn = np.zeros(self._capacity, dtype=np.int32)
        self._columns[query] = column
        for entry in self._find_counted(query):
            column[list(entry.node_counts)] += np.fromiter(entry.node_counts.values(), np.int32, len(entry.node_counts))
            entry.columns.append(column)
        if not isinstance(query, AntiAffinityHolders):
            self._query_index.put(query, query.selector, query.namespaces)
        return column

    def _find_counted(self, query: PodCountQuery) -> Iterator[ProfileCounts]:
        if isinstance(query, AntiAffinityHolders):
            yield from self._terms.get(query.term, ())
            return
        for namespace in self._profiles.namespaces if query.namespaces is None else query.namespaces:
            namespace_labels = self.namespace_labels(namespace)
            for entry in self._profiles.candidates(namespace, query.selector):
                if query.counts(entry.profile, entry.labels, namespace_labels):
                    yield entry

    def _fit_columns(self) -> None:
        """Drop columns that are too short for the table's nodes."""
        if self._capacity != self._table.capacity:
            self._forget_columns()

    def _forget_columns(self) -> None:
        self._capacity = self._table.capacity
        self._columns.clear()
        self._query_index.clear()
        for entry in self._profiles:
            entry.columns.clear()


def _count(node_counts: dict[int, int], number: int, times: int) -> None:
    count = node_counts.get(number, 0) + times
    if count:
        node_counts[number] = count
    else:
        node_counts.pop(number, None)


def _build_index_key(term: PodTerm) -> tuple[Selector, tuple[str, ...] | None]:
    """The selector and the namespaces under which a term is indexed."""
    query = term.query
    return query.selector, query.namespaces if query.namespace_selector.selects_nothing else None
