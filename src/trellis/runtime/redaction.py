"""What must not be written into a log? Credentials, by the name of their field and by their look."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "(hidden)"

# Anywhere in a name: `tokens_left` is hidden along with `bearerToken`, because a leak is not undone and a count is not
# missed.
_SECRET_NAMES: Final = re.compile(
    r"token|passw|secret|authorization|credential|private_?key|client_?key|cookie", re.IGNORECASE
)
# Bearer tokens, JSON Web Tokens, which every service account has, and passwords inside of URLs.
_SECRET_TEXTS: Final = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    r"|(?P<user>://[^\s/:@]*:)[^\s/@]+(?=@)"
)


def redacted(text: str) -> str:
    """Text without anything that looks like a credential."""
    return _SECRET_TEXTS.sub(lambda found: (found["scheme"] or found["user"] or "") + HIDDEN, text)


def is_secret(name: str) -> bool:
    """Whether a field of this name may hold a credential."""
    return _SECRET_NAMES.search(name) is not None
