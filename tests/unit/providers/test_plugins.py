"""Providers as plug-ins: found by entry point, and loaded only if they are named."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, entry_points

import pytest

from support import virtual_time
from support.worlds.providers.cloud_provider import Cloud, CloudProvider
from support.worlds.providers.provider_context import build_context
from trellis.base.errors import InvalidInput
from trellis.providers.kwok.settings import KwokSettings
from trellis.providers.plugins import (
    ENTRY_POINTS,
    ProviderContext,
    RunningProvider,
    load_providers,
    open_providers,
)

HERE = __name__


opened: list[tuple[str, str]] = []


@asynccontextmanager
async def open_cloud(context: ProviderContext) -> AsyncIterator[RunningProvider]:
    opened.append(("open", context.options.get("region", "")))
    yield RunningProvider(CloudProvider(Cloud()), context.writer)
    opened.append(("close", ""))


NOT_A_FUNCTION = 3


def announce(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ENTRY_POINTS)


def test_the_providers_of_trellis_are_announced_as_those_of_other_packages_are() -> None:
    announced = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    assert announced["kwok"] == "trellis.providers.kwok.plugin:open_kwok"
    assert callable(load_providers(["kwok"])["kwok"])


def test_a_named_provider_is_opened_with_its_options_and_closed_at_the_end() -> None:
    opened.clear()

    async def main() -> None:
        options = {"cloud": {"region": "north"}, "other": {"region": "south"}}
        announced = [announce("cloud", f"{HERE}:open_cloud")]
        async with open_providers(["cloud"], build_context(), options, announced) as running:
            assert [provider.name for provider, _ in running] == ["cloud"]
            assert opened == [("open", "north")]

    virtual_time.run(main())
    assert opened == [("open", "north"), ("close", "")]


def test_a_provider_that_is_not_named_is_not_imported() -> None:
    announced = [announce("cloud", f"{HERE}:open_cloud"), announce("slow", "module_that_does_not_exist:open")]
    assert list(load_providers(["cloud"], announced)) == ["cloud"]
    assert "module_that_does_not_exist" not in sys.modules


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("module_that_does_not_exist:open", "cannot be loaded"),
        (f"{HERE}:missing", "cannot be loaded"),
        (f"{HERE}:NOT_A_FUNCTION", "must be a function that opens a node provider"),
    ],
)
def test_a_provider_that_cannot_be_loaded_is_refused(value: str, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        load_providers(["cloud"], [announce("cloud", value)])


def test_an_unknown_provider_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match="available: cloud, kwok; did you mean kwok"):
        load_providers(["kwock"], [announce("cloud", "x:y"), announce("kwok", "x:y")])


def test_another_package_cannot_take_the_name_of_a_provider_of_trellis() -> None:
    announced = [announce("kwok", f"{HERE}:open_cloud"), announce("kwok", "trellis.providers.kwok.plugin:open_kwok")]
    assert load_providers(["kwok"], announced)["kwok"] is not open_cloud


def test_a_provider_of_trellis_finds_its_settings() -> None:
    own = KwokSettings(kwok_node_groups="infra/groups")
    assert build_context(own).section(KwokSettings) is own
    assert build_context().section(KwokSettings) == KwokSettings()
