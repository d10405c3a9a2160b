"""The requests of the pod that comes after a pod: what admission gives to a new pod of the same shape.

The node autoscaler moves pods, and keeps space for pods that will grow. The pod itself may be boosted at the moment;
its replacement starts from what it had before.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.kube.pods import Pod
from trellis.core.admission.pod_patches import decide_resources
from trellis.core.admission.starting_cpu import remove_boost
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import PodShape, is_resizable


class ReplacementSize(msgspec.Struct, frozen=True):
    """Requests by container: `recommended` without a boost, `starting` as the new pod starts.

    A container or a resource that is absent requests what the pod's spec says.
    """

    recommended: Mapping[str, ResourceAmounts] = {}
    starting: Mapping[str, ResourceAmounts] = {}


def compute_replacement_size(
    pod: Pod, governor: Governor, limits: NamespaceLimits, settings: BoostSettings
) -> ReplacementSize:
    """The requests of a replacement of a pod that has a governor."""
    unboosted = remove_boost(pod)
    shape = PodShape.from_spec(unboosted.spec)
    size, boost, _ = decide_resources(
        shape, governor, limits, settings, lambda: None, resizable=is_resizable(unboosted.spec)
    )
    recommended = {sized.container.name: sized.requests for sized in size.containers if sized.requests}
    starting = dict(recommended)
    if unboosted is not pod:
        for container in shape.containers:
            before = {"cpu": container.requests.get("cpu", 0)}
            starting[container.name] = {**before, **recommended.get(container.name, {})}
    for boosted in boost.containers:
        name = boosted.container.name
        starting[name] = {**starting.get(name, {}), "cpu": boosted.request}
    return ReplacementSize(recommended, starting)
