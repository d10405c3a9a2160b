"""Who answers for a recommender that cannot be had? One that fails: its VPAs keep what they have and say why."""

from __future__ import annotations

from typing import NoReturn

from trellis.base.errors import RecommenderFailure
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.protocol import Rows


class Unavailable:
    """Stands in for a recommender, and takes whatever parameters are meant for it."""

    needs_history = False
    parameters: tuple[Parameter, ...] = ()

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    def estimate(self, _rows: Rows, _values: ParameterValues, _now: float, /) -> NoReturn:
        """No answer."""
        raise RecommenderFailure(self.why)
