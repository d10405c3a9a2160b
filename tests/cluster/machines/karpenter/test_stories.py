"""The stories of nodes that come and go, with machines of Karpenter."""

from __future__ import annotations

from support.cluster.machines.stories import NodeStories


class TestStories(NodeStories):
    """With the provider karpenter."""
