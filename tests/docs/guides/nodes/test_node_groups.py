"""The guide to groups of nodes: its provider passes the conformance suite, and its tables tell what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from support.virtual_time import run
from support.worlds.providers.provider_context import build_context
from trellis.api.kinds.kwok_node_group import GROUP_LABEL, KWOK_KEY, STARTING_TAINT, GroupFailureMode
from trellis.providers.kwok import CONFIG_MAP
from trellis.testing.providers import find_failures

GUIDE: Final = Path(__file__).resolve().parents[4] / "docs" / "guides" / "node-groups.md"


def run_guide() -> dict[str, Any]:
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n\n".join(blocks), str(GUIDE), "exec"), names)  # noqa: S102 - our own guide
    return names


def test_the_provider_in_the_guide_conforms() -> None:
    assert find_failures(run_guide()["CloudEnvironment"], run) == []


def test_the_function_of_the_entry_point_in_the_guide_opens_the_provider() -> None:
    names = run_guide()

    async def main() -> None:
        async with names["open_cloud"](build_context()) as running:
            assert (running.provider.name, type(running.provider)) == ("cloud", names["CloudProvider"])

    run(main())


def test_every_failure_mode_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    assert all(f"| `{how}` |" in text for how in GroupFailureMode)


def test_labels_taints_and_the_config_map_have_the_names_of_the_code() -> None:
    text = GUIDE.read_text()
    namespace, _, name = CONFIG_MAP.partition("/")
    assert f"create configmap {name} --namespace {namespace}" in text
    assert all(f"`{key}" in text for key in (GROUP_LABEL, KWOK_KEY, STARTING_TAINT))
