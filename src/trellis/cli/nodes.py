"""`trellis nodes`: orders the nodes that pods and Buffers lack, and gives back those that nobody needs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trellis.cli.component import component
from trellis.controllers.nodes.process import autoscaling
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.runtime.shutdown import Main, together


def start(settings: NodeControllerSettings) -> Main:
    """The autoscaler, and with it the Buffer controller if there are settings for one."""
    file = settings.together.with_buffers
    return together(autoscaling(settings), _translating(settings, Path(file))) if file else autoscaling(settings)


def _translating(settings: NodeControllerSettings, file: Path) -> Main:
    """The Buffer controller of a file of settings; the cluster and the Lease it yields to are the autoscaler's."""
    from trellis.controllers.buffers.process import translating  # noqa: PLC0415 -- for those who want both
    from trellis.controllers.buffers.settings import BufferControllerSettings  # noqa: PLC0415
    from trellis.runtime.setting_loading import load  # noqa: PLC0415
    from trellis.runtime.setting_sources import from_file  # noqa: PLC0415

    loaded = load(BufferControllerSettings, from_file(BufferControllerSettings, file))
    leader = settings.leader
    lease = f"{leader.leader_elect_resource_namespace}/{leader.leader_elect_resource_name}"
    headroom = msgspec.structs.replace(loaded.settings.headroom, nodes_lease=lease)
    return translating(msgspec.structs.replace(loaded.settings, access=settings.access, headroom=headroom))


command = component(
    "nodes",
    "Order the nodes that pods and Buffers lack, and give back those that nobody needs.",
    NodeControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=start,
)
