"""`--components` names components, presets, and what to leave out."""

from __future__ import annotations

import pytest

from trellis.base.errors import InvalidInput
from trellis.runtime.manager.settings import COMPONENTS, ProcessSettings, choose_components
from trellis.runtime.settings.loader import from_flags, load_settings


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("all", COMPONENTS),
        ("updater,recommender", ("recommender", "updater")),
        ("drop-in", ("recommender", "admission", "updater")),
        ("drop-in,-admission", ("recommender", "updater")),
        ("all,-nodes,-buffers", ("recommender", "admission", "updater", "hvpa")),
        ("-nodes", ("recommender", "admission", "updater", "hvpa", "buffers")),
        ("-drop-in,nodes", ("nodes",)),
    ],
)
def test_components_are_chosen_by_name_by_preset_and_by_exclusion(words: str, chosen: tuple[str, ...]) -> None:
    loaded = load_settings(ProcessSettings, from_flags(ProcessSettings, {"components": (words,)}))
    assert loaded.settings.choice.chosen == chosen


def test_all_components_run_unless_told_otherwise() -> None:
    assert ProcessSettings().choice.chosen == COMPONENTS


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("nodez", "did you mean nodes?"),
        ("-recomender", "did you mean recommender?"),
        ("vpa", "use recommender, admission, updater, hvpa, buffers, nodes, drop-in, all, or -name to leave one out"),
        ("-all", "leaves no component to run"),
    ],
)
def test_a_wrong_choice_is_refused_with_what_there_is(words: str, rule: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_settings(ProcessSettings, from_flags(ProcessSettings, {"components": (words,)}))
    assert rule in refused.value.rule
    with pytest.raises(InvalidInput):
        choose_components(words.split(","))
