"""What is to be backtested? Recommenders with parameters, one variant for each value of a sweep, and the terms."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

import msgspec

from trellis.base.errors import InvalidInput
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.declaration import declaration_of
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.replay import DAY, HOUR
from trellis.sources.series.units import Machine


class Asked(msgspec.Struct, frozen=True):
    """One variant: a recommender by its name, what to import for one that is installed, and what is set of it."""

    name: str
    recommender: str
    value: str = ""
    parameters: dict[str, str] = {}

    def made(self) -> Recommender:
        """The recommender, new."""
        return made(self.recommender, self.value)


class Sweep(msgspec.Struct, frozen=True):
    """A parameter as it was written, with its values, and the variants that have them."""

    recommender: str
    parameter: str
    values: tuple[str, ...]
    variants: tuple[str, ...]


class Terms(msgspec.Struct, frozen=True):
    """How often is decided, in seconds; what is not scored; and by what fraction a decision must differ to be applied.

    The warm-up is at most `warm_up_share` of a series. `machine` is what fractions are of.
    """

    step: float = HOUR
    warm_up: float = 7 * DAY
    threshold: float = 0.05
    warm_up_share: float = 0.4
    machine: Machine = Machine()


class Request(msgspec.Struct, frozen=True):
    """All variants, in order: the others are held against the first."""

    variants: tuple[Asked, ...]
    sweeps: tuple[Sweep, ...] = ()
    terms: Terms = Terms()


def made(name: str, value: str = "") -> Recommender:
    """A recommender that comes with Trellis, or one that `module:attribute` gives when it is called."""
    if not value:
        return built_in_recommenders()[name]
    module, _, attribute = value.partition(":")
    try:
        recommender: Recommender = reduce(getattr, attribute.split("."), import_module(module))()  # type: ignore[operator]
    except Exception as error:
        raise InvalidInput(name, f"--recommenders: cannot be loaded: {type(error).__name__}: {error}") from error
    declaration_of(recommender)
    return recommender
