"""Settings that need a restart keep their values; the others are taken over if they go with those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import pytest

from trellis.base.errors import InvalidInput
from trellis.runtime.manager.configuration.changes import find_changed_components, keep_until_restart
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.manager.settings import ProcessSettings
from trellis.runtime.settings.declarations import Reload, Setting, SettingConflict, Settings, declared_settings
from trellis.runtime.settings.loader import LoadedSettings


class Soil(Settings, frozen=True):
    """Fixed while plants stand in it."""

    reload: ClassVar[Reload | None] = Reload.RESTART_OF_PROCESS

    depth: Annotated[int, Setting("Depth.", why="Enough.")] = 5
    label: Annotated[str, Setting("Label.", why="None.", reload=Reload.AT_ONCE)] = ""


class Plants(Settings, frozen=True):
    """What grows."""

    soil: Soil = Soil()
    roots: Annotated[int, Setting("Length of roots.", why="Usual.")] = 3

    def conflicts(self) -> Iterator[SettingConflict]:
        if self.roots > self.soil.depth:
            yield SettingConflict("roots", "must not be longer than the soil is deep")


def process(plants: Plants) -> LoadedProcess:
    return LoadedProcess(LoadedSettings(ProcessSettings(), {}), {"garden": LoadedSettings(plants, {"depth": "flag"})})


def test_a_group_or_a_setting_says_what_applies_a_change_and_else_it_is_a_restart_of_the_component() -> None:
    assert {declared.name: declared.reload for declared in declared_settings(Plants)} == {
        "depth": Reload.RESTART_OF_PROCESS,
        "label": Reload.AT_ONCE,
        "roots": Reload.RESTART_OF_COMPONENT,
    }


def test_each_change_waits_for_what_it_needs() -> None:
    before = process(Plants())
    kept, pending = keep_until_restart(before, process(Plants(soil=Soil(depth=9, label="a"), roots=4)))
    assert kept.components["garden"].settings == Plants(soil=Soil(depth=5, label="a"), roots=4)
    assert [(change.field, change.value) for change in pending] == [("garden.depth", 9)]
    assert find_changed_components(before, kept) == ("garden",)
    label = process(Plants(soil=Soil(label="b")))
    assert find_changed_components(before, keep_until_restart(before, label)[0]) == ()


def test_a_change_that_goes_only_with_one_that_needs_a_restart_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"roots: must not be longer .* only together with depth, which a restart"):
        keep_until_restart(process(Plants()), process(Plants(soil=Soil(depth=9), roots=8)))
