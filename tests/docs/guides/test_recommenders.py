"""The answer to "why" in the guide is what a recommender answers, half an hour into a steady life."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support import virtual_time
from support.controllers.recommender import NAMESPACE, START, VPAS, World
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS
from trellis.runtime.telemetry.health_server import PageRequest

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "recommenders.md").read_text()


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """What a recommender says of a VPA whose policy allows 256Mi."""
    world = World("--recommender-name=default,seasonal")
    world.add_workload("web", cpu="400m")
    policy = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"memory": "256Mi"}}]}
    vpa = world.add_vpa("web", resourcePolicy=policy)
    vpa["metadata"]["annotations"] = {SHADOW_RECOMMENDERS: "seasonal"}
    world.server.put(f"{VPAS}/web", vpa)
    result: dict[str, Any] = {}

    async def main() -> None:
        async with world.recommending() as recommender:
            await world.passes(30)
            page = recommender.http_api.pages["/recommendations/{namespace}/{vpa}"]
            result.update(json.loads((await page(PageRequest({"namespace": NAMESPACE, "vpa": "web"}, {}))).text))

    virtual_time.run(main(), start=START)
    return result


def agrees(shown: Any, real: Any) -> bool:
    """Whether all that is shown is so; numbers are shown with a few digits."""
    if isinstance(shown, dict):
        return all(key in real and agrees(value, real[key]) for key, value in shown.items())
    return bool(real == pytest.approx(shown, abs=0.06, rel=1e-6) if isinstance(shown, float) else real == shown)


def test_the_container_of_the_guide_is_what_is_answered(answer: dict[str, Any]) -> None:
    [text] = re.findall(r"^```json\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    shown, [real] = json.loads(text), answer["containers"]
    assert agrees(shown, real), json.dumps(real, indent=2)


def test_every_key_of_the_answer_is_reported(answer: dict[str, Any]) -> None:
    section = GUIDE[GUIDE.index("## Why?") : GUIDE.index("## When is another")]
    plain = {"namespace", "name", "generation", "updateMode", "containers", "meaning"}
    for key in {*answer, *answer["containers"][0], "failure", "shadowsNotRunning"} - plain:
        assert f"`{key}`" in section, key
