"""Nodes without machines: groups that a ConfigMap declares, and Nodes that kwok keeps ready.

Pure functions from objects to states and actions: the package reads and writes no cluster and has no clock.
"""

from trellis.providers.kwok.provider import KwokObjects, KwokProvider
from trellis.providers.kwok.settings import CONFIG_MAP

__all__ = ["CONFIG_MAP", "KwokObjects", "KwokProvider"]
