"""The pods on each node, counted as affinity, anti-affinity and topology spread count them.

Pods with equal profiles are counted together, node by node. What a rule counts is a column over all nodes, built on
first use and kept current as pods come and go: a pod touches only the columns that count it. Profiles are indexed by a
label once a rule selects by that label: a namespace can have thousands of profiles, and as many rules that each select
one.

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
    """Pods that every one of the queries means; also those that are leaving."""

    queries: tuple[PodQuery, ...]

    @property
    def selector(self) -> Selector:
        """What their labels must be, as far as one selector says it."""
        return self.queries[0].selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in; None for any."""
        query = self.queries[0]
        return query.namespaces if query.namespace_selector.selects_nothing else None

    def counts(self, resident: PodProfile, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod is one of them."""
        return all(query.means(resident.namespace, namespace_labels, labels) for query in self.queries)


class SpreadPodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods of one namespace that are to stay, as constraints of spread count them."""

    namespace: str
    selector: Selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in."""
        return (self.namespace,)

    def counts(self, resident: PodProfile, labels: Labels, _namespace_labels: Labels) -> bool:
        """Whether a pod is one of them."""
        return resident.namespace == self.namespace and not resident.leaving and self.selector.matches(labels)


class AntiAffinityHolders(msgspec.Struct, frozen=True, gc=False):
    """Pods that have this term of anti-affinity themselves."""

    term: PodTerm


# Those that are answered by looking at a pod's labels, and all of them.
LabelPodQuery: TypeAlias = AffinityPodQuery | SpreadPodQuery
PodCountQuery: TypeAlias = LabelPodQuery | AntiAffinityHolders


CountColumn = npt.NDArray[np.int32]

# Labels of namespaces that are indexed; pods can refer to any.
_MOST_INDEXES: Final = 1024


class ProfileCounts:
    """Pods that look alike: how many are on which node, and which columns count them."""

    __slots__ = ("columns", "labels", "resident", "where")

    def __init__(self, resident: PodProfile) -> None:
        self.resident = resident
        self.labels = dict(resident.labels)
        self.where: dict[int, int] = {}
        self.columns: list[CountColumn] = []


class ProfileIndex:
    """All kinds there are, by namespace."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[PodProfile, ProfileCounts]] = {}
        # By namespace and name of a label, then by its value.
        self._indexes: dict[tuple[str, str], dict[str, dict[ProfileCounts, None]]] = {}

    def __iter__(self) -> Iterator[ProfileCounts]:
        return chain.from_iterable(kinds.values() for kinds in self._kinds.values())

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have pods."""
        return list(self._kinds)

    def find(self, resident: PodProfile) -> ProfileCounts | None:
        """The kind that looks like this."""
        return self._kinds.get(resident.namespace, {}).get(resident)

    def add(self, kind: ProfileCounts) -> None:
        namespace = kind.resident.namespace
        self._kinds.setdefault(namespace, {})[kind.resident] = kind
        for key, value in kind.resident.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                index.setdefault(value, {})[kind] = None

    def drop(self, kind: ProfileCounts) -> None:
        namespace = kind.resident.namespace
        del self._kinds[namespace][kind.resident]
        for key, value in kind.resident.labels:
            index = self._indexes.get((namespace, key))
            if index is not None:
                del index[value][kind]
                if not index[value]:
                    del index[value]
        if not self._kinds[namespace]:
            del self._kinds[namespace]

    def candidates(self, namespace: str, selector: Selector) -> Iterable[ProfileCounts]:
        """Those of one namespace that a selector may select."""
        kinds = self._kinds.get(namespace, {})
        if not selector.value_requirements or not kinds:
            return kinds.values()
        requirement = selector.value_requirements[0]
        index = self._index(namespace, requirement.key)
        return chain.from_iterable(index.get(value, {}) for value in requirement.values)

    def _index(self, namespace: str, key: str) -> dict[str, dict[ProfileCounts, None]]:
        index = self._indexes.get((namespace, key))
        if index is None:
            if len(self._indexes) >= _MOST_INDEXES:
                self._indexes.clear()
            index = self._indexes[namespace, key] = {}
            for kind in self._kinds[namespace].values():
                if key in kind.labels:
                    index.setdefault(kind.labels[key], {})[kind] = None
        return index


# Columns kept; with 5,000 nodes they occupy 64 MB at most. One that was forgotten is made anew when it is asked for.
_MOST_COLUMNS: Final = 2048

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
        self._kinds = ProfileIndex()
        self._columns: dict[PodCountQuery, CountColumn] = {}
        self._asked: LabelSelectorIndex[LabelPodQuery] = LabelSelectorIndex()
        # The terms by which placed pods keep others away, and who has them.
        self._terms: dict[PodTerm, dict[ProfileCounts, None]] = {}
        self._keeping: LabelSelectorIndex[PodTerm] = LabelSelectorIndex()
        self._capacity = table.capacity
        for number, resident in placed:
            self.add(number, resident)

    def name_namespace(self, name: str, labels: Labels) -> None:
        """Note the labels of a namespace."""
        if self._namespaces.get(name, NOTHING) != labels:
            self._namespaces[name] = labels
            self._forget_columns()

    def namespace_labels(self, name: str) -> Labels:
        """The labels of a namespace; none if it is not known."""
        return self._namespaces.get(name, NOTHING)

    def add(self, number: int, resident: PodProfile, times: int = 1) -> None:
        """Put a pod on a node, or take one away with -1 times. A negative number is that of no node."""
        if number < 0:
            return
        self._fit_columns()
        kind = self._kind(resident)
        _count(kind.where, number, times)
        for column in kind.columns:
            column[number] += times
        if not kind.where:
            self._forget_kind(kind)

    def add_many(self, numbers: IntColumn, resident: PodProfile, times: IntColumn) -> None:
        """The same for several nodes, each of them named once."""
        self._fit_columns()
        kind = self._kind(resident)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            _count(kind.where, number, count)
        for column in kind.columns:
            column[numbers] += times.astype(np.int32)
        if not kind.where:
            self._forget_kind(kind)

    def remove(self, number: int, resident: PodProfile) -> None:
        """Take a pod away that was put there looking like this."""
        self.add(number, resident, -1)

    def copy(self) -> ExistingPods:
        """The same pods, to try something with."""
        copy = ExistingPods(self._table, namespaces=self._namespaces)
        for kind in self._kinds:
            copy._kind(kind.resident).where = dict(kind.where)
        return copy

    def clear(self, number: int) -> None:
        """Take all pods away from one node."""
        for kind in list(self._kinds):
            count = kind.where.get(number)
            if count:
                self.add(number, kind.resident, -count)

    def counts(self, query: PodCountQuery) -> CountColumn:
        """How many of the pods in question are on each node; not to be changed."""
        self._fit_columns()
        column = self._columns.get(query)
        if column is None:
            column = self._count_anew(query)
        return column[: self._table.reach]

    def keeping_away(self, resident: PodProfile) -> list[PodTerm]:
        """The terms by which placed pods keep such a pod out of their domains."""
        labels, namespace_labels = dict(resident.labels), self.namespace_labels(resident.namespace)
        candidates = self._keeping.candidates(resident.namespace, labels)
        return [term for term in candidates if term.query.means(resident.namespace, namespace_labels, labels)]

    def _kind(self, resident: PodProfile) -> ProfileCounts:
        kind = self._kinds.find(resident)
        if kind is None:
            kind = ProfileCounts(resident)
            self._kinds.add(kind)
            namespace_labels = self.namespace_labels(resident.namespace)
            for query in self._asked.candidates(resident.namespace, kind.labels):
                if query.counts(resident, kind.labels, namespace_labels):
                    kind.columns.append(self._columns[query])
            self._note_terms(kind)
        return kind

    def _note_terms(self, kind: ProfileCounts) -> None:
        for term in set(kind.resident.apart):
            if term not in self._terms:
                self._terms[term] = {}
                self._keeping.put(term, *_index_key(term))
            self._terms[term][kind] = None
            column = self._columns.get(AntiAffinityHolders(term))
            if column is not None:
                kind.columns.append(column)

    def _forget_kind(self, kind: ProfileCounts) -> None:
        self._kinds.drop(kind)
        for term in set(kind.resident.apart):
            del self._terms[term][kind]
            if not self._terms[term]:
                del self._terms[term]
                self._keeping.drop(term, *_index_key(term))

    def _count_anew(self, query: PodCountQuery) -> CountColumn:
        if len(self._columns) >= _MOST_COLUMNS:
            self._forget_columns()
        column: CountColumn = np.zeros(self._capacity, dtype=np.int32)
        self._columns[query] = column
        for kind in self._counted(query):
            column[list(kind.where)] += np.fromiter(kind.where.values(), np.int32, len(kind.where))
            kind.columns.append(column)
        if not isinstance(query, AntiAffinityHolders):
            self._asked.put(query, query.selector, query.namespaces)
        return column

    def _counted(self, query: PodCountQuery) -> Iterator[ProfileCounts]:
        if isinstance(query, AntiAffinityHolders):
            yield from self._terms.get(query.term, ())
            return
        for namespace in self._kinds.namespaces if query.namespaces is None else query.namespaces:
            namespace_labels = self.namespace_labels(namespace)
            for kind in self._kinds.candidates(namespace, query.selector):
                if query.counts(kind.resident, kind.labels, namespace_labels):
                    yield kind

    def _fit_columns(self) -> None:
        """Columns that are too short for the table's nodes are made anew."""
        if self._capacity != self._table.capacity:
            self._forget_columns()

    def _forget_columns(self) -> None:
        self._capacity = self._table.capacity
        self._columns.clear()
        self._asked.clear()
        for kind in self._kinds:
            kind.columns.clear()


def _count(where: dict[int, int], number: int, times: int) -> None:
    count = where.get(number, 0) + times
    if count:
        where[number] = count
    else:
        where.pop(number, None)


def _index_key(term: PodTerm) -> tuple[Selector, tuple[str, ...] | None]:
    """By what a term is found that may mean a pod."""
    query = term.query
    return query.selector, query.namespaces if query.namespace_selector.selects_nothing else None
