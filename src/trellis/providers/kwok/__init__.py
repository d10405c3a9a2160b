"""Nodes without machines: groups that a ConfigMap declares, and Nodes that kwok keeps ready.

Pure functions from objects to states and actions: the package reads and writes no cluster and has no clock.
"""

from trellis.providers.kwok.provider import CONFIG_MAP, KwokObjects, KwokProvider

__all__ = ["CONFIG_MAP", "KwokObjects", "KwokProvider"]
