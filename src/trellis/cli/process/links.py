"""Settings of one component that follow from another's in the same process, unless they are set.

| component | setting | follows |
|---|---|---|
| buffers | `nodes-lease` | the lease of nodes |
| updater | `admission-controller-status-lease-name` and `-namespace` | the status Lease of admission |
| recommender | `update-worker-count` | admission: one write at a time, because reviews wait for the event loop too |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trellis.runtime.manager.settings import ADMISSION, BUFFERS, NODES, RECOMMENDER, UPDATER

if TYPE_CHECKING:
    from trellis.controllers.admission.settings import AdmissionSettings
    from trellis.controllers.buffers.settings import BufferControllerSettings
    from trellis.controllers.nodes.settings import NodeControllerSettings
    from trellis.controllers.recommender.settings import RecommenderSettings
    from trellis.controllers.updater.settings import UpdaterSettings
    from trellis.runtime.manager.layers import LoadedProcess
    from trellis.runtime.settings.loader import LoadedSettings


# With ten writes at a time a review waits ten times as long in a pass over 5,000 VPAs as without one: the loop handles
# all responses that have arrived before it reads the next review. With one it waits less than twice as long.
_WRITES_BESIDE_REVIEWS: Final = 1


def link_components(loaded: LoadedProcess) -> dict[str, Any]:
    """The settings of each component, with the place of the Lease where one observes another."""
    settings = {name: own.settings for name, own in loaded.components.items()}
    if {BUFFERS, NODES} <= settings.keys():
        settings[BUFFERS] = _follow_nodes(loaded.components[BUFFERS], settings[NODES])
    if {UPDATER, ADMISSION} <= settings.keys():
        settings[UPDATER] = _follow_admission(loaded.components[UPDATER], settings[ADMISSION])
    if {RECOMMENDER, ADMISSION} <= settings.keys():
        settings[RECOMMENDER] = _write_beside_reviews(loaded.components[RECOMMENDER])
    return settings


def link_process(loaded: LoadedProcess) -> LoadedProcess:
    """The same with the settings of all components; the origins stay, so that what follows has none."""
    components = {
        name: msgspec.structs.replace(loaded.components[name], settings=settings)
        for name, settings in link_components(loaded).items()
    }
    return msgspec.structs.replace(loaded, components=components)


def _write_beside_reviews(recommender: LoadedSettings[RecommenderSettings]) -> RecommenderSettings:
    values = _unless_set(recommender.origins, update_worker_count=_WRITES_BESIDE_REVIEWS)
    loop = msgspec.structs.replace(recommender.settings.loop, **values)
    return msgspec.structs.replace(recommender.settings, loop=loop)


def _follow_nodes(
    buffers: LoadedSettings[BufferControllerSettings], nodes: NodeControllerSettings
) -> BufferControllerSettings:
    leader = nodes.leader
    lease = f"{leader.leader_elect_resource_namespace}/{leader.leader_elect_resource_name}"
    headroom = msgspec.structs.replace(buffers.settings.headroom, **_unless_set(buffers.origins, nodes_lease=lease))
    return msgspec.structs.replace(buffers.settings, headroom=headroom)


def _follow_admission(updater: LoadedSettings[UpdaterSettings], admission: AdmissionSettings) -> UpdaterSettings:
    presence = admission.presence
    values = _unless_set(
        updater.origins,
        admission_controller_status_lease_name=presence.status_lease_name,
        admission_controller_status_lease_namespace=presence.status_lease_namespace or admission.registration.namespace,
    )
    return msgspec.structs.replace(
        updater.settings, admission=msgspec.structs.replace(updater.settings.admission, **values)
    )


def _unless_set(origins: Mapping[str, str], **values: str | int) -> dict[str, Any]:
    return {field: value for field, value in values.items() if field.replace("_", "-") not in origins}
