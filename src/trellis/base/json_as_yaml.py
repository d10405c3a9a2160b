"""What a YAML parser has to be told so that it reads JSON as JSON.

YAML 1.1 is nearly a superset of JSON. The rest is rare but real: Python's json.dumps writes every emoji as a
pair of surrogates, which YAML refuses, and three characters that JSON keeps are line breaks in YAML.
"""

from __future__ import annotations

import json
import re
from typing import Final

_DIFFERS: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[\x7f-\x9f\u2028\u2029]"
_SEARCH: Final = re.compile(_DIFFERS)
# An escaped backslash is taken first, or its second half would be read as the beginning of an escape.
_REPLACE: Final = re.compile(rf"\\\\|{_DIFFERS}")


def json_as_yaml(text: str) -> str:
    """The same value in words that both languages share; text that is not JSON is given back as it is.

    Lines stay where they are. Columns behind a replaced character move by its difference in length.
    """
    if not text.lstrip().startswith(("{", "[")) or not _SEARCH.search(text):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _REPLACE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found == "\\\\":
        return found
    if found[0] == "\\":
        (character,) = json.loads(f'["{found}"]')
        return f"\\U{ord(character):08x}"
    return f"\\u{ord(found):04x}"
