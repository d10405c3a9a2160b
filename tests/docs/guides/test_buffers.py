"""The pages about Buffers say what the controller does: its reasons, flags, metrics, labels and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pages
from support.builders.collected_clusters import spare
from trellis.core import buffers
from trellis.core.buffers.translation_facts import NODE_CLASS_LABELS, BufferSettings
from trellis.core.cluster import target_problems
from trellis.core.explain import explain_buffer

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDE = (DOCS / "guides" / "buffers.md").read_text()
CONCEPT = (DOCS / "concepts" / "buffers.md").read_text()
REFERENCE = (DOCS / "reference" / "buffers-controller.md").read_text()


def known_codes() -> set[str]:
    own = {var.code for var in vars(target_problems).values() if hasattr(var, "code")}
    return {*pages.find_reasons(), *own}


def test_every_reason_it_names_is_one() -> None:
    table = GUIDE.split("Reasons of `ReadyForProvisioning`")[1].split("\n\nThe message")[0]
    named = {code for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for code in re.findall(r"`(\w+)`", row)}
    named |= set(re.findall(r"\(`([A-Z]\w+)`\)", GUIDE)) | set(
        re.findall(r"\| `([A-Z]\w+)` \|$", CONCEPT, re.MULTILINE)
    )
    assert len(named) > 15
    assert named - known_codes() == set()


def test_every_flag_and_metric_it_names_is_one() -> None:
    flags = set(re.findall(r"`(?:trellis buffers )?(--[a-z-]+)", GUIDE)) - {"--explain"}
    assert len(flags) > 4
    assert {flag for flag in flags if f"`{flag}`" not in REFERENCE} == set()
    for name in re.findall(r"`(trellis_buffers_\w+)`", GUIDE):
        assert f"| `{name}` |" in REFERENCE, name


def test_the_classes_of_nodes_are_those_that_are_known() -> None:
    table = GUIDE.split("A class is a label on nodes:")[1].split("\n\n###")[0]
    rows = re.findall(r"^\| (`.*?) \| `([^`]+)` \|", table, re.MULTILINE)
    assert {kind: label for kinds, label in rows for kind in re.findall(r"`(\w+)`", kinds)} == NODE_CLASS_LABELS


def test_the_node_that_is_assumed_is_the_one_of_the_page() -> None:
    assert BufferSettings().assumed_node == {"cpu": 500, "memory": 2**30}
    assert "half a CPU and 1Gi" in CONCEPT


def test_the_library_has_what_the_page_imports() -> None:
    imported = CONCEPT.split("core.buffers import ")[1].splitlines()[0].split(", ")
    assert {name for name in imported if not hasattr(buffers, name)} == set()


def test_the_worked_number_is_that_of_the_example() -> None:
    result = {name: explain_buffer(spare().evidence(), name).buffer for name in ("builds", "spot", "web")}
    assert [part.totals["cpu"] for part in result.values() if part is not None] == ["4", "9999m", "2"]
    assert result["web"] is not None
    assert (result["web"].desired_chunks, result["web"].chunks) == (3, 2)
    assert "two older Buffers reserve 4 and 9.999 CPUs" in " ".join(CONCEPT.split())
