"""Which pods are on which nodes, as the rules of other pods see them?

Pods that look alike are one kind, with a count for each node. What a rule counts is a column over all nodes, made when
somebody first asks and kept current as pods come and go: a pod touches the columns that count it and no others.
Numbers are those of one table, as in an occupancy: `clear` that of a removed node before it stands for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.selectors import Selector
from trellis.core.fit.census import ByLabels, KeepingAway, Question
from trellis.core.fit.kinds import CountColumn, Kind, Kinds
from trellis.core.fit.label_buckets import LabelBuckets
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.pod_terms import PodTerm
from trellis.core.fit.resident import Resident
from trellis.core.usage.columns import IntColumn

# Columns kept; with 5,000 nodes they occupy 64 MB at most. One that was forgotten is made anew when it is asked for.
_MOST_COLUMNS: Final = 2048

_NONE: Final[Mapping[str, Labels]] = {}


class Neighbours:
    """The pods on the nodes of one table. `namespaces` has the labels of namespaces, which some rules go by."""

    def __init__(
        self,
        table: NodeTable,
        placed: Iterable[tuple[int, Resident]] = (),
        namespaces: Mapping[str, Labels] = _NONE,
    ) -> None:
        self._table = table
        self._namespaces = dict(namespaces)
        self._kinds = Kinds()
        self._columns: dict[Question, CountColumn] = {}
        self._asked: LabelBuckets[ByLabels] = LabelBuckets()
        # The terms by which placed pods keep others away, and who has them.
        self._terms: dict[PodTerm, dict[Kind, None]] = {}
        self._keeping: LabelBuckets[PodTerm] = LabelBuckets()
        self._capacity = table.capacity
        for number, resident in placed:
            self.add(number, resident)

    def name_namespace(self, name: str, labels: Labels) -> None:
        """Note the labels of a namespace."""
        if self._namespaces.get(name, NOTHING) != labels:
            self._namespaces[name] = labels
            self._forget_columns()

    def namespace_labels(self, name: str) -> Labels:
        """The labels of a namespace; none if nobody has said."""
        return self._namespaces.get(name, NOTHING)

    def add(self, number: int, resident: Resident, times: int = 1) -> None:
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

    def add_each(self, numbers: IntColumn, resident: Resident, times: IntColumn) -> None:
        """The same for several nodes, each of them named once."""
        self._fit_columns()
        kind = self._kind(resident)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            _count(kind.where, number, count)
        for column in kind.columns:
            column[numbers] += times.astype(np.int32)
        if not kind.where:
            self._forget_kind(kind)

    def remove(self, number: int, resident: Resident) -> None:
        """Take a pod away that was put there looking like this."""
        self.add(number, resident, -1)

    def copy(self) -> Neighbours:
        """The same pods, to try something with."""
        made = Neighbours(self._table, namespaces=self._namespaces)
        for kind in self._kinds:
            made._kind(kind.resident).where = dict(kind.where)
        return made

    def clear(self, number: int) -> None:
        """Take all pods away from one node."""
        for kind in list(self._kinds):
            count = kind.where.get(number)
            if count:
                self.add(number, kind.resident, -count)

    def counts(self, question: Question) -> CountColumn:
        """How many of the pods in question are on each node; not to be changed."""
        self._fit_columns()
        column = self._columns.get(question)
        if column is None:
            column = self._count_anew(question)
        return column[: self._table.reach]

    def keeping_away(self, resident: Resident) -> list[PodTerm]:
        """The terms by which placed pods keep such a pod out of their domains."""
        labels, about = dict(resident.labels), self.namespace_labels(resident.namespace)
        candidates = self._keeping.candidates(resident.namespace, labels)
        return [each for each in candidates if each.query.means(resident.namespace, about, labels)]

    def _kind(self, resident: Resident) -> Kind:
        kind = self._kinds.find(resident)
        if kind is None:
            kind = Kind(resident)
            self._kinds.add(kind)
            about = self.namespace_labels(resident.namespace)
            for question in self._asked.candidates(resident.namespace, kind.labels):
                if question.counts(resident, kind.labels, about):
                    kind.columns.append(self._columns[question])
            self._note_terms(kind)
        return kind

    def _note_terms(self, kind: Kind) -> None:
        for term in set(kind.resident.apart):
            if term not in self._terms:
                self._terms[term] = {}
                self._keeping.put(term, *_found_by(term))
            self._terms[term][kind] = None
            column = self._columns.get(KeepingAway(term))
            if column is not None:
                kind.columns.append(column)

    def _forget_kind(self, kind: Kind) -> None:
        self._kinds.drop(kind)
        for term in set(kind.resident.apart):
            del self._terms[term][kind]
            if not self._terms[term]:
                del self._terms[term]
                self._keeping.drop(term, *_found_by(term))

    def _count_anew(self, question: Question) -> CountColumn:
        if len(self._columns) >= _MOST_COLUMNS:
            self._forget_columns()
        column: CountColumn = np.zeros(self._capacity, dtype=np.int32)
        self._columns[question] = column
        for kind in self._counted(question):
            column[list(kind.where)] += np.fromiter(kind.where.values(), np.int32, len(kind.where))
            kind.columns.append(column)
        if not isinstance(question, KeepingAway):
            self._asked.put(question, question.selector, question.namespaces)
        return column

    def _counted(self, question: Question) -> Iterator[Kind]:
        if isinstance(question, KeepingAway):
            yield from self._terms.get(question.term, ())
            return
        for namespace in self._kinds.namespaces if question.namespaces is None else question.namespaces:
            about = self.namespace_labels(namespace)
            for kind in self._kinds.candidates(namespace, question.selector):
                if question.counts(kind.resident, kind.labels, about):
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


def _found_by(term: PodTerm) -> tuple[Selector, tuple[str, ...] | None]:
    """By what a term is found that may mean a pod."""
    query = term.query
    return query.selector, query.namespaces if query.namespace_selector.selects_nothing else None
