"""The program in the guide to controllers, put together as its reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

GUIDE: Final = Path(__file__).resolve().parents[1] / "docs" / "guides" / "writing-a-controller.md"


def program() -> str:
    """The guide shows the controller first and the imports last; a program has them the other way round."""
    controller, start, imports = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return "\n\n".join([imports, controller, start])


def names() -> dict[str, Any]:
    """What the program defines, without starting it."""
    found: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program(), str(GUIDE), "exec"), found)  # noqa: S102 - our own documentation
    return found
