"""The stories of nodes that come and go, with machines of a server of the external gRPC protocol."""

from __future__ import annotations

from support.cluster.machines.stories import NodeStories


class TestStories(NodeStories):
    """With the provider externalgrpc."""
