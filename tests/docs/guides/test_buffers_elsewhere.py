"""The guide to Buffers elsewhere shows what is made of a Buffer, and names every reason that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.docs.transcripts import BLOCK
from support.worlds.buffers import translated
from trellis.controllers.buffers.capacity_buffers import mirror, owned_objects
from trellis.core.buffers import export_buffer

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "buffers-elsewhere.md").read_text()


def test_the_buffer_on_the_page_becomes_the_objects_on_the_page() -> None:
    shown: list[dict[str, Any]] = [yaml.safe_load(match[2]) for match in BLOCK.finditer(PAGE) if match[1] == "yaml"]
    buffer, capacity, template = shown
    exported = export_buffer(buffer["metadata"]["name"], translated(buffer))
    assert exported is not None
    assert exported.spec == capacity["spec"]
    assert exported.template == template


def test_every_reason_of_the_condition_is_on_the_page() -> None:
    reasons = (
        mirror.HELD_BY_CAPACITY_BUFFER,
        mirror.CAPACITY_BUFFER_EMPTY,
        mirror.CAPACITY_BUFFERS_NOT_SERVED,
        mirror.MINIMUM_HELD_BY_CAPACITY_BUFFER,
        mirror.MINIMUM_NOT_OBSERVED,
        owned_objects.OWNED_NAME_TAKEN,
        owned_objects.OWNED_REFUSED,
    )
    assert [reason.code for reason in reasons if f"| `{reason.code}` |" not in PAGE] == []
    assert mirror.KEPT_AS_CAPACITY_BUFFER in PAGE
