"""The numbers in the guide to startup boost are what the code makes of such pods, and its words are the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from measured.jvm_boost import load_measurement
from support.builders.manifests import vpa
from support.worlds.boosts import Life, container, effective, end, pod, start
from trellis.api.resolve import EffectiveVpa
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.base.yaml.documents import Document, read_documents
from trellis.core.boost import boosted_size as notes
from trellis.core.boost.boosted_size import BoostSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guides" / "startup-boost.md").read_text()
LATER = 1000.0


def table(header: str) -> list[list[str]]:
    """The cells of the table that begins so."""
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def governed(text: str) -> tuple[EffectiveVpa, BoostSettings]:
    """What a cell of a table says about a policy."""
    kind, amount = re.findall(r"`(Factor|Quantity)` `?(\w+)`?", text)[0]
    cpu: dict[str, Any] = (
        {"type": kind, "factor": int(amount)} if kind == "Factor" else {"type": kind, "quantity": amount}
    )
    values = "RequestsOnly" if "RequestsOnly" in text else "RequestsAndLimits"
    policies = {"containerPolicies": [{"containerName": "*", "controlledValues": values}]}
    capped = re.search(r"--max-allowed-cpu-boost=(\w+)", text)
    settings = BoostSettings(max_cpu=Quantity.parse(capped[1]).milli if capped else None)
    return effective(vpa(startupBoost={"cpu": cpu}, resourcePolicy=policies)), settings


def text_of(amount: int | None) -> str:
    return "none" if amount is None else f"{amount}m"


def given_cpu(text: str) -> str | None:
    return None if text == "none" else text


def test_the_figures_of_a_jvm_are_those_that_were_measured() -> None:
    measured = load_measurement(ROOT)
    rows = table("| | CPU limit until Ready |")
    assert [row[1:] for row in rows] == [
        [f"{start.limit[0]}m", f"{start.ready:.1f} s", f"in {start.throttled} of {start.periods} periods"]
        for start in (measured.plain, measured.boosted)
    ]
    assert measured.plain.ready >= 2 * measured.boosted.ready


@pytest.mark.req("SB-15", "SB-16", "SB-17", "SB-18", "SB-19")
@pytest.mark.parametrize("row", table("| own request |"), ids=" ".join)
def test_a_row_about_the_base_is_true(row: list[str]) -> None:
    own, recommended, policy, expected = row
    meaning, settings = governed(policy)
    target = recommended.split(",")[0]
    if 'updateMode: "Off"' in recommended:
        meaning = effective(
            vpa(startupBoost={"cpu": {"type": "Factor", "factor": 3}}, updatePolicy={"updateMode": "Off"})
        )
    targets = {} if target == "none" else {"app": target}
    life = start(pod(container(given_cpu(own))), meaning, targets, settings=settings)
    assert text_of(life.cpu()[0]) == expected


@pytest.mark.req("SB-20", "SB-21", "SB-23")
@pytest.mark.parametrize("row", table("| request / limit |"), ids=" ".join)
def test_a_row_about_limits_is_true(row: list[str]) -> None:
    came, policy, expected = row
    meaning, settings = governed(policy)
    life = start(pod(container(*came.split(" / "))), meaning, settings=settings)
    assert " / ".join(map(text_of, life.cpu())) == expected


@pytest.mark.req("SB-50", "SB-51", "SB-52", "SB-53", "SB-54", "SB-55")
@pytest.mark.parametrize("row", table("| file | container |"), ids=" ".join)
def test_a_row_about_an_example_is_true(row: list[str]) -> None:
    link, which, recommended, starts, later, ends = row
    name = re.findall(r"\[([\w-]+)\]", link)[0]
    (document,) = read_documents((ROOT / "examples" / "startup-boost" / f"{name}.yaml").read_bytes())
    assert isinstance(document, Document)
    content: Any = document.value
    meaning, app = effective(content), which.strip("`").replace("any other", "other").replace("any", "app")
    began = start(pod(container("300m" if starts == "4500m" else "500m", name=app)), meaning, {app: recommended})
    after = end(began, meaning, {app: later}, now=LATER, ready_since=0.0)
    assert [text_of(life.cpu(app)[0]) for life in (began, after)] == [starts, ends]


def test_every_phrase_about_a_boost_is_explained_and_no_other() -> None:
    phrases = {str(notes.BoostNote(var)) for var in vars(notes).values() if isinstance(var, Reason)}
    assert {row[0].strip("`") for row in table("| in `vpaUpdates` |")} == phrases


def test_the_annotation_is_the_one_that_is_written() -> None:
    ((key, value),) = table("| annotation |")
    came = Life({"containers": [container("500m", "1")]})
    came.spec["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    life = start(came, governed("`Factor` 2")[0])
    assert {key.strip("`"): value.strip("`")} == life.annotations
