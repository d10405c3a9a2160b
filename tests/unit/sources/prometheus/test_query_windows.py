"""However often a window is halved, every step of every namespace is queried once, in the order of time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from trellis.sources.prometheus.history import QueryWindow, QueryWindows

groups = st.lists(st.integers(1, 6), max_size=4).map(
    lambda sizes: [tuple(f"ns-{number}-{n}" for n in range(size)) for number, size in enumerate(sizes)]
)


@given(groups, st.integers(1, 40), st.integers(1, 50), st.integers(1, 60))
def test_every_step_of_every_namespace_is_queried_once_and_in_order(
    namespaces: list[tuple[str, ...]], steps: int, longest: int, bearable: int
) -> None:
    pieces = QueryWindows(namespaces, steps, longest)
    observed: dict[str, list[int]] = defaultdict(list)
    total = pieces.size
    while piece := pieces.next():
        assert piece.steps <= longest
        assert piece.namespaces is not None
        if piece.size > bearable:
            assert pieces.halve()
            continue
        remaining = pieces.size
        pieces.mark_read()
        assert pieces.size == remaining - piece.size
        for namespace in piece.namespaces:
            observed[namespace] += range(piece.first, piece.first + piece.steps)
    assert pieces.size == 0
    assert sum(map(len, observed.values())) == total
    assert observed == {name: list(range(steps)) for group in namespaces for name in group}


def test_time_is_halved_first_and_namespaces_when_one_step_is_left() -> None:
    pieces = QueryWindows([("a", "b", "c")], 4, 3)
    tried = []
    while (piece := pieces.next()) and piece.size > 1:
        tried.append((piece.namespaces, piece.first, piece.steps))
        assert pieces.halve()
    assert tried == [
        (("a", "b", "c"), 0, 3),
        (("a", "b", "c"), 0, 1),
        (("a",), 0, 3),
    ]


def test_a_window_that_cannot_be_halved_is_an_error() -> None:
    for group in (("a",), None):
        pieces = QueryWindows([group], 1, 10)
        assert pieces.next() == QueryWindow(group, 0, 1)
        assert not pieces.halve()


def test_each_group_begins_with_the_full_length() -> None:
    pieces = QueryWindows([("a",), ("b",)], 8, 8)
    assert pieces.halve()
    pieces.mark_read()
    assert pieces.next() == QueryWindow(("a",), 4, 4)
    pieces.mark_read()
    assert pieces.next() == QueryWindow(("b",), 0, 8)
