"""`trellis nodes`: orders the nodes that pods and Buffers lack, and gives back those that nobody needs."""

from __future__ import annotations

from trellis.cli.component import component
from trellis.controllers.nodes.process import autoscaling
from trellis.controllers.nodes.settings import NodeControllerSettings

command = component(
    "nodes",
    "Order the nodes that pods and Buffers lack, and give back those that nobody needs.",
    NodeControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=autoscaling,
)
