"""Files of usage as workloads: what their names mean, and what is said of those that cannot be used."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trellis.core.advice.asked import Asked
from trellis.core.advice.choice import Choice
from trellis.core.advice.surveyed import Surveyed
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.sources.series.reading import parts_of
from trellis.sources.survey.files import survey_files

BEGIN = 1_785_000_000
MIB = 2**20


def table(*series: tuple[str, float, float], minutes: int = 600) -> str:
    rows = [
        f"{name},{BEGIN + 300 * number},{cpu},{memory}"
        for name, cpu, memory in series
        for number in range(minutes // 5)
    ]
    return "\n".join(["series,timestamp,cpu_cores,memory_bytes", *rows]) + "\n"


def surveyed(tmp_path: Path, choice: Choice = Choice(), **files: str) -> Surveyed:  # noqa: B008
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return survey_files(parts_of([str(tmp_path)]), "usage", choice, Asked(built_in_recommenders()["default"]))


def test_names_say_of_what_the_series_are(tmp_path: Path) -> None:
    text = table(
        ("shop/web/app", 0.2, 300 * MIB), ("shop/web/proxy", 0.1, MIB), ("db/postgres", 1, MIB), ("cache", 1, MIB)
    )
    found = surveyed(tmp_path, usage=text)
    assert [(each.namespace, each.name, [c.name for c in each.containers]) for each in found.workloads] == [
        ("default", "cache", ["app"]),
        ("default", "db", ["postgres"]),
        ("shop", "web", ["app", "proxy"]),
    ]
    app = found.workloads[2].containers[0]
    assert app.estimate.target.cpu == pytest.approx(1.15 * 200, rel=0.1)
    assert app.estimate.target.memory == pytest.approx(1.15 * 300 * MIB, rel=0.1)
    assert math.isnan(app.request.cpu)
    assert (app.samples, app.highest.memory) == (120, 300 * MIB)
    assert found.time == BEGIN + 300 * 119
    assert not found.is_partial
    assert found.effort.samples == 4 * 2 * 120


def test_namespaces_can_be_chosen(tmp_path: Path) -> None:
    text = table(("shop/web/app", 0.2, MIB), ("office/web/app", 0.2, MIB))
    assert [each.namespace for each in surveyed(tmp_path, Choice.of(["of*"]), usage=text).workloads] == ["office"]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    text = table(("shop/web/app", 0.2, MIB))
    found = surveyed(tmp_path, a=text, b=text, c="hello,world\n1,2\n")
    assert found.is_partial
    assert len(found.workloads) == 1
    twice, unreadable = sorted(found.missing, key=lambda each: "twice" not in each.why)
    assert "series shop/web/app is there twice" in twice.why
    assert unreadable.what.endswith("c.csv")


def test_no_usage_at_all_is_said(tmp_path: Path) -> None:
    found = surveyed(tmp_path, Choice.of(["nowhere"]), usage=table(("shop/web/app", 0.2, MIB)))
    assert found.workloads == ()
    assert found.notes == ("there is no usage in them that was asked about",)
