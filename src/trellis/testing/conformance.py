"""What the conformance suites share: the error for a broken rule."""

from __future__ import annotations


class Nonconformance(AssertionError):
    """What was tested does not keep to its protocol. The message says how."""
