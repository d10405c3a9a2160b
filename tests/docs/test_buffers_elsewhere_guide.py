"""The guide to Buffers elsewhere shows what is made of a Buffer, and names every reason that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from buffer_world import translated
from transcripts import BLOCK
from trellis.controllers.buffers import owned, translated_condition
from trellis.core.buffers import said_elsewhere

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "buffers-elsewhere.md").read_text()


def test_the_buffer_on_the_page_becomes_the_objects_on_the_page() -> None:
    shown: list[dict[str, Any]] = [yaml.safe_load(match[2]) for match in BLOCK.finditer(PAGE) if match[1] == "yaml"]
    buffer, capacity, template = shown
    found = said_elsewhere(buffer["metadata"]["name"], translated(buffer))
    assert found is not None
    assert found.spec == capacity["spec"]
    assert found.template == template


def test_every_reason_of_the_condition_is_on_the_page() -> None:
    reasons = (
        translated_condition.KEPT_ELSEWHERE,
        translated_condition.NOTHING_ELSEWHERE,
        translated_condition.CAPACITY_BUFFERS_NOT_SERVED,
        translated_condition.MINIMUM_KEPT_ELSEWHERE,
        translated_condition.MINIMUM_NOT_OBSERVED,
        owned.OWNED_NAME_TAKEN,
        owned.OWNED_REFUSED,
    )
    assert [each.code for each in reasons if f"| `{each.code}` |" not in PAGE] == []
    assert translated_condition.KEPT_AS_CAPACITY_BUFFER in PAGE
