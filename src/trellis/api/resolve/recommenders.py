"""Which recommender serves an object."""

from __future__ import annotations

from collections.abc import Sequence

from trellis.api.vpa import RecommenderSelector

DEFAULT_RECOMMENDER = "default"
# The names of those that come with Trellis.
BUILT_IN_RECOMMENDERS = frozenset({DEFAULT_RECOMMENDER, "window", "seasonal", "adaptive", "phases"})


def selects(recommenders: Sequence[RecommenderSelector] | None, name: str) -> bool:
    """Whether the list names that recommender, letter for letter; no list at all names `default`.

    The list may have any length: that it has at most one entry is a rule of validation alone, and can be lifted there.
    """
    if not recommenders:
        return name == DEFAULT_RECOMMENDER
    return any(entry.name == name for entry in recommenders)
