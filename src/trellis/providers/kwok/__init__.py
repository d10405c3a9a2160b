"""Nodes without machines: groups that a ConfigMap declares, and Nodes that kwok keeps ready.

Objects in, states and actions out: nothing here reads from a cluster, writes to one or knows what time it is.
"""

from trellis.providers.kwok.provider import CONFIG_MAP, KwokObjects, KwokProvider

__all__ = ["CONFIG_MAP", "KwokObjects", "KwokProvider"]
