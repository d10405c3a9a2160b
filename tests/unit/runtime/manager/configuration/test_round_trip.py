"""Settings, written as a configuration file, are read as the same settings."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity
from trellis.cli.process.catalog import import_all_settings
from trellis.runtime.manager.configuration.file import read_configuration
from trellis.runtime.manager.configuration.rendering import render_configuration
from trellis.runtime.manager.layers import LoadedProcess, SettingsLayer, load_process
from trellis.runtime.manager.settings import COMPONENTS, ProcessSettings
from trellis.runtime.settings.declarations import (
    SUFFIX_OF_FILES,
    SettingDeclaration,
    component_settings,
    declared_settings,
)
from trellis.runtime.settings.loader import WrittenValue, find_conflicts

TYPES = import_all_settings()
FILE = Path("config.yaml")
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)


def values_of(declared: SettingDeclaration) -> st.SearchStrategy[Any]:
    """Values that the setting accepts, as its type has them."""
    about, default = declared.setting, declared.default
    by_type: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**40), 2**40),
        float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 100).map(float),
        Duration: st.integers(0, 10**16).map(Duration) | st.integers(0, 10**6).map(Duration.from_seconds),
        Quantity: st.integers(0, 2**50).map(Quantity.from_units)
        | st.sampled_from(["250m", "1500Mi", "0.5"]).map(Quantity.parse),
        FeatureGates: st.builds(FeatureGates, *[st.booleans()] * len(FeatureGates.__struct_fields__)),
        tuple: st.lists(TEXT, max_size=3).map(tuple),
    }
    if about.choices:
        drawn: st.SearchStrategy[Any] = st.sampled_from(about.choices)
    elif isinstance(default, StrEnum):
        drawn = st.sampled_from(list(type(default)))
    elif declared.kind.name in ("number", "quantity"):
        drawn = by_type[float if declared.kind.name == "number" else Quantity]
    else:
        drawn = by_type.get(type(default), TEXT)
    usual = st.just(default)
    return usual | drawn.filter(lambda value: is_accepted(declared, value))


def is_accepted(declared: SettingDeclaration, value: Any) -> bool:
    try:
        return bool(declared.read(declared.kind.to_json(value)) == value)
    except InvalidInput:
        return False


@st.composite
def processes(draw: st.DrawFn) -> LoadedProcess:
    """The settings of a process of all components, as if flags had set some of them."""
    shared = draw_values(draw, list(declared_settings(ProcessSettings)))
    shared["components"] = WrittenValue("all", "flag")
    components = {name: draw_values(draw, list(component_settings(types, name))) for name, types in TYPES.items()}
    try:
        return load_process(TYPES, SettingsLayer(shared, components))
    except InvalidInput:
        # Rules over several settings: the values of one group at a time are enough.
        return load_process(TYPES, SettingsLayer({}, {name: {} for name in COMPONENTS}))


def draw_values(draw: st.DrawFn, declared: list[SettingDeclaration]) -> dict[str, WrittenValue]:
    fields = st.sampled_from([own for own in declared if own.has_field])
    chosen = draw(st.lists(fields, max_size=3, unique_by=lambda own: own.name))
    values = {own.name: draw(values_of(own)) for own in chosen}
    return {
        own.name: WrittenValue(own.kind.to_json(values[own.name]), "flag")
        for own in chosen
        if values[own.name] is not None
    }


def read_back(text: str) -> LoadedProcess:
    return load_process(TYPES, read_configuration(TYPES, FILE, text.encode()).layer)


@given(processes())
def test_the_settings_of_all_components_are_read_as_they_were_written(loaded: LoadedProcess) -> None:
    again = read_back(render_configuration(loaded))
    assert again.process.settings == loaded.process.settings
    for name in COMPONENTS:
        assert again.components[name].settings == loaded.components[name].settings


@pytest.mark.parametrize("component", COMPONENTS)
@given(data=st.data())
def test_each_setting_of_a_component_is_read_as_it_was_written(component: str, data: st.DataObject) -> None:
    """One setting at a time, so that no rule over several settings discards an example."""
    fields = [own for own in component_settings(TYPES[component], component) if own.has_field]
    declared = data.draw(st.sampled_from(fields))
    value = data.draw(values_of(declared).filter(lambda value: value is not None))
    written = {declared.name: WrittenValue(declared.kind.to_json(value), "flag")}
    try:
        loaded = load_process(TYPES, SettingsLayer({}, {component: written}))
    except InvalidInput:
        return
    again = read_back(render_configuration(loaded))
    assert again.components[component].settings == loaded.components[component].settings
    assert not list(find_conflicts(again.components[component].settings))


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_setting_has_a_field_but_secrets_have_one_for_a_file(component: str) -> None:
    for declared in declared_settings(TYPES[component]):
        if declared.setting.secret:
            names = {other.name for other in declared_settings(TYPES[component])}
            assert f"{declared.name}{SUFFIX_OF_FILES}" in names
            assert not declared.has_field


def test_defaults_written_to_a_file_change_nothing() -> None:
    loaded = load_process(TYPES)
    again = read_back(render_configuration(loaded))
    assert again.components == {
        name: msgspec.structs.replace(own, origins=again.components[name].origins)
        for name, own in loaded.components.items()
    }
