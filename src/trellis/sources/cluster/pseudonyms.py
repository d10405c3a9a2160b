"""Replaces names by pseudonyms, the same one for the same name.

Pseudonyms follow from a secret that is drawn for one dump and stored nowhere. Names of pods, ReplicaSets and Jobs
begin with those of their controllers, by which past pods are recognised: names are therefore replaced part by part
between their dashes, and random suffixes become other suffixes of that form.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from trellis.base.errors import InvalidSelector
from trellis.base.selectors import LabelRequirement, Selector, parse_selector
from trellis.core.cluster.dump_format import DUMPED_KINDS
from trellis.sources.cluster.public_fields import PUBLIC_LABELS, PUBLIC_NAMES, is_public_group, is_public_key

# Kubernetes draws endings from these, which spell no words.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_DRAWN: Final = re.compile(f"[{_LETTERS}]{{5,10}}")
_WORD: Final = 5
_ORDINAL: Final = re.compile("[0-9]{1,3}")
_DIGITS: Final = "0123456789"
_HOST_NAME: Final = "kubernetes.io/hostname"
# How a volume that is in several zones writes them in one label.
_BETWEEN_ZONES: Final = "__"


class Pseudonyms:
    """Pseudonyms derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._used: set[tuple[str, str]] = set()

    def mask_name(self, text: str) -> str:
        """A name, part by part; the number at the end of a StatefulSet's pod stays."""
        if text in PUBLIC_NAMES:
            return text
        parts = text.split("-")
        masked = [self._mask_part(part) for part in parts]
        if len(parts) > 1 and _ORDINAL.fullmatch(parts[-1]):
            masked[-1] = parts[-1]
        return "-".join(masked)

    def mask_namespace(self, text: str) -> str:
        """A namespace, as a whole."""
        return text if text in PUBLIC_NAMES else self._draw_with_prefix("ns", text)

    def mask_node(self, text: str) -> str:
        """A node, as a whole: its name is often its address."""
        return self._draw_with_prefix("node", text)

    def mask_key(self, text: str) -> str:
        """The key of a label or an extended resource; keeps a slash, by which a scheduler recognises the latter."""
        if not text or is_public_key(text):
            return text
        masked = self._draw_with_prefix("key", text)
        return f"{masked}/x" if "/" in text else masked

    def mask_label(self, key: str, value: str) -> str:
        """The value of a label."""
        if key == _HOST_NAME:
            return self.mask_node(value)
        return value if key in PUBLIC_LABELS else _BETWEEN_ZONES.join(map(self.mask_name, value.split(_BETWEEN_ZONES)))

    def mask_kind(self, text: str) -> str:
        """A kind that only this cluster may have."""
        return text if text in DUMPED_KINDS or text in PUBLIC_NAMES else self._draw_with_prefix("Kind", text)

    def mask_api_version(self, text: str) -> str:
        """The API version of a kind, with a pseudonym for a group that only this cluster may have."""
        group, slash, version = text.rpartition("/")
        return text if is_public_group(group) else f"{self._draw_with_prefix('group', group)}{slash}{version}"

    def mask_selector(self, text: str) -> str:
        """A selector in its text form; one that cannot be read selects nothing, whatever it says."""
        try:
            requirements = parse_selector(text).requirements
        except InvalidSelector:
            return ""
        return str(Selector(tuple(map(self._mask_requirement_labels, requirements))))

    def _mask_requirement_labels(self, requirement: LabelRequirement) -> LabelRequirement:
        values = tuple(sorted(self.mask_label(requirement.key, value) for value in requirement.values))
        return LabelRequirement(self.mask_key(requirement.key), requirement.operator, values)

    def _mask_part(self, text: str) -> str:
        if not text:
            return text
        if text.isdecimal():
            return self._draw("digits", text, _DIGITS, max(len(text), _WORD))
        length = len(text) if _DRAWN.fullmatch(text) else _WORD
        return self._draw("part", text, _LETTERS, length)

    def _draw_with_prefix(self, prefix: str, text: str) -> str:
        return f"{prefix}-{self._draw(prefix, text, _LETTERS, 8)}" if text else text

    def _draw(self, family: str, text: str, letters: str, length: int) -> str:
        """Letters that follow from the text and the secret alone, unless another text has them already."""
        pseudonym = self._pseudonyms.get((family, text))
        if pseudonym is None:
            tries = 0
            while pseudonym is None or (family, pseudonym) in self._used:
                digest = hashlib.blake2b(f"{family}/{tries}/{text}".encode(), key=self._secret).digest()
                pseudonym = "".join(letters[byte % len(letters)] for byte in digest[:length])
                tries += 1
            self._pseudonyms[family, text] = pseudonym
            self._used.add((family, pseudonym))
        return pseudonym
