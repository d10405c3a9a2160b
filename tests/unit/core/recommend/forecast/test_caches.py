"""One cached value for each setting, and a limited number of them."""

from __future__ import annotations

from trellis.core.recommend.forecast.caches import SettingsCache


def test_each_setting_has_its_own_cached_value() -> None:
    cache: SettingsCache[str, list[str]] = SettingsCache(lambda setting: [setting])
    assert cache.get("a") is cache.get("a")
    assert cache.get("b") == ["b"]


def test_an_excess_of_settings_does_not_fill_the_memory() -> None:
    made: list[int] = []
    cache: SettingsCache[int, None] = SettingsCache(made.append)
    for setting in [*range(33), 32, 0]:
        cache.get(setting)
    assert made == [*range(33), 0]
