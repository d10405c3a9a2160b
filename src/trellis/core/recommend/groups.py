"""Which VPAs can be asked about together? Those that chose the same recommender and mean the same by its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec

from trellis.core.recommend.parameters import ParameterValue, ParameterValues, ReadParameters, read_parameters
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.unavailable import Unavailable
from trellis.core.recommend.vpas import NO_GROUP, NOT_OURS

_Key: TypeAlias = tuple[str, tuple[tuple[str, ParameterValue], ...]]


class Group(msgspec.Struct, frozen=True):
    """A recommender, by the name it is served under, and a value for each of its parameters."""

    recommender: str
    values: ParameterValues


class Placed(msgspec.Struct, frozen=True):
    """The group of a VPA, or why it has none."""

    group: int
    problem: str = ""


class Groups:
    """All groups, numbered, for one set of recommenders."""

    def __init__(self) -> None:
        self._numbers: dict[_Key, int] = {}
        self._groups: dict[int, Group] = {}
        self._without_parameters: dict[str, Placed] = {}
        self._next = 0

    def __getitem__(self, number: int) -> Group:
        return self._groups[number]

    def __len__(self) -> int:
        return len(self._groups)

    def place(self, name: str, given: Mapping[str, str], recommenders: Mapping[str, Recommender]) -> Placed:
        """The group of a VPA that names a recommender and gives it parameters."""
        if given:
            return self._place(name, given, recommenders)
        if name not in self._without_parameters:
            self._without_parameters[name] = self._place(name, given, recommenders)
        return self._without_parameters[name]

    def keep(self, numbers: Collection[int]) -> None:
        """Forget all other groups: nobody is in them any more."""
        self._groups = {number: group for number, group in self._groups.items() if number in numbers}
        self._numbers = {key: number for key, number in self._numbers.items() if number in numbers}
        self._without_parameters.clear()

    def _place(self, name: str, given: Mapping[str, str], recommenders: Mapping[str, Recommender]) -> Placed:
        recommender = recommenders.get(name)
        if recommender is None:
            return Placed(NOT_OURS)
        # What cannot be had declares nothing, and what is given to it may well be right.
        is_there = not isinstance(recommender, Unavailable)
        read = read_parameters(recommender.parameters, given) if is_there else ReadParameters(dict(given))
        if read.problems:
            return Placed(NO_GROUP, read.message)
        key = (name, tuple(sorted(read.values.items())))
        if key not in self._numbers:
            self._numbers[key] = self._next
            self._groups[self._next] = Group(name, read.values)
            self._next += 1
        return Placed(self._numbers[key])
