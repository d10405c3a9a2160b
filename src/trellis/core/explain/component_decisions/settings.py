"""Settings of the components of a cluster, from their flags as far as those were collected."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.buffers import BufferSettings
from trellis.core.hvpa import HvpaSettings
from trellis.core.nodes import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.resize.settings import UpdateSettings
from trellis.core.usage.settings import UsageSettings

# Of the admission controller's Lease; the updater's own default.
_LEASE_TIMEOUT = 60.0


class CollectedSettings(msgspec.Struct, frozen=True):
    """The settings of all components, as the core reads them.

    `names` are those that a recommender was seen to answer to, beside those that come with Trellis; `presets` are other
    defaults for parameters, by recommender. Pods of a priority below `expendable_below` get no node. `heeds_admission`
    says that no pod is evicted while the Lease called `admission_lease` is not renewed. `with_flags` are the components
    whose flags were read; others have their defaults.
    """

    usage: UsageSettings = UsageSettings()
    estimates: DefaultSettings = DefaultSettings()
    pipeline: PipelineSettings = PipelineSettings()
    updates: UpdateSettings = UpdateSettings()
    boosts: BoostSettings = BoostSettings()
    buffers: BufferSettings = BufferSettings()
    hvpas: HvpaSettings = HvpaSettings()
    nodes_up: ScaleUpSettings = ScaleUpSettings()
    nodes_down: ScaleDownSettings = ScaleDownSettings()
    expendable_below: int = EXPENDABLE_PODS_PRIORITY_CUTOFF
    gates: FeatureGates = FeatureGates()
    names: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, str]] = {}
    heeds_admission: bool = True
    admission_lease: tuple[str, str] = ("kube-system", "vpa-admission-controller")
    admission_timeout: float = _LEASE_TIMEOUT
    with_flags: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
