"""GameServerSets as targets of Buffers: a kind without a scale, with its own format for the size of its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trellis.core.buffers import TargetReading, selector_in


class GameServerSets:
    """`games.example.com/v1`: a number of servers of one game, each of them a pod."""

    api_version = "games.example.com/v1"
    kind = "GameServerSet"
    plural = "gameserversets"

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        """Return the count of running servers, their selector and the template of a server's pod."""
        game = document["spec"]["game"]
        labels = {"games.example.com/set": document["metadata"]["name"]}
        server = {"name": "server", "image": game["image"], "resources": {"requests": game["perServer"]}}
        return TargetReading(
            replicas=document.get("status", {}).get("running", 0),
            selector=selector_in({"matchLabels": labels}),
            template={"metadata": {"labels": labels}, "spec": {"containers": [server]}},
        )
