"""The program in the guide to controllers, put together as its reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

GUIDE: Final = Path(__file__).resolve().parents[3] / "docs" / "guides" / "writing-a-controller.md"


def program() -> str:
    """The guide shows the controller first and the imports last; a program has them the other way round."""
    controller, start, imports, *_ = _blocks()
    return "\n\n".join([imports, controller, start])


def names() -> dict[str, Any]:
    """What the program and the component define, without starting them."""
    *_, component, further_imports = _blocks()
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n\n".join([program(), further_imports, component]), str(GUIDE), "exec"), names)  # noqa: S102 - our own guide
    return names


def _blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
