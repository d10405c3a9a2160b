"""`trellis nodes`: scales node groups up for pods and Buffers that do not fit, and down where nodes are unneeded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trellis.base.errors import InvalidInput
from trellis.cli.component import component_command
from trellis.controllers.nodes.informers import list_followed_kinds
from trellis.controllers.nodes.process import nodes_main
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.runtime.cached_kinds import WIDEST_KINDS
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, run_together


def start(settings: NodeControllerSettings) -> Main:
    """The autoscaler, and with it the Buffer controller if there are settings for one."""
    file = settings.together.with_buffers
    return _start_with_buffers(settings, Path(file)) if file else nodes_main(settings)


def _start_with_buffers(settings: NodeControllerSettings, file: Path) -> Main:
    """Both, with shared informers. The cluster and the Lease that Buffers yield to are the autoscaler's."""
    # Imported for those who want both.
    from trellis.controllers.buffers import informers as buffer_informers  # noqa: PLC0415
    from trellis.controllers.buffers.process import buffers_main  # noqa: PLC0415
    from trellis.controllers.buffers.settings import BufferControllerSettings  # noqa: PLC0415
    from trellis.runtime.settings.loader import from_file, load_settings  # noqa: PLC0415

    loaded = load_settings(BufferControllerSettings, from_file(BufferControllerSettings, file))
    leader = settings.leader
    lease = f"{leader.leader_elect_resource_namespace}/{leader.leader_elect_resource_name}"
    headroom = msgspec.structs.replace(loaded.settings.headroom, nodes_lease=lease)
    buffer_settings = msgspec.structs.replace(loaded.settings, access=settings.access, headroom=headroom)
    followed = (*list_followed_kinds(settings), *buffer_informers.list_followed_kinds(buffer_settings.scope))
    shared = SharedInformers(followed, WIDEST_KINDS)
    return run_together(nodes_main(settings, shared), buffers_main(buffer_settings, shared))


def refuse_buffers(settings: NodeControllerSettings) -> None:
    """Refuse a second component beside one that is restarted when its configuration file changes."""
    file = settings.together.with_buffers
    if file:
        rule = "--with-buffers does not go with --config: use trellis run --components=nodes,buffers --config=FILE"
        raise InvalidInput(file, rule)


command = component_command(
    "nodes",
    "Add missing nodes, and remove unneeded nodes.",
    NodeControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=start,
    check_with_file=refuse_buffers,
)
