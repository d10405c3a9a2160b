"""By which figures do the components of a cluster decide? Those of their flags, as far as somebody could see them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.gates import Gates
from trellis.core.boost.raising import BoostSettings
from trellis.core.buffers import BufferSettings
from trellis.core.hvpa import HvpaSettings
from trellis.core.nodes import DownSettings, UpSettings
from trellis.core.nodes.population import EXPENDABLE_BELOW
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.resize.settings import UpdateSettings
from trellis.core.usage.settings import UsageSettings

# Of the admission controller's Lease; the updater's own default.
_LEASE_TIMEOUT = 60.0


class Components(msgspec.Struct, frozen=True):
    """All of them, as the core asks for them.

    `names` are those that a recommender was seen to answer to, beside those that come with Trellis; `presets` are other
    defaults for parameters, by recommender. Pods of a priority below `expendable_below` get no node. `heeds_admission`
    says that nobody is evicted while the Lease called `admission_lease` is not renewed. `seen` are the components whose
    flags were read: for others, defaults stand here.
    """

    usage: UsageSettings = UsageSettings()
    estimates: DefaultSettings = DefaultSettings()
    pipeline: PipelineSettings = PipelineSettings()
    updates: UpdateSettings = UpdateSettings()
    boosts: BoostSettings = BoostSettings()
    buffers: BufferSettings = BufferSettings()
    hvpas: HvpaSettings = HvpaSettings()
    nodes_up: UpSettings = UpSettings()
    nodes_down: DownSettings = DownSettings()
    expendable_below: int = EXPENDABLE_BELOW
    gates: Gates = Gates()
    names: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, str]] = {}
    heeds_admission: bool = True
    admission_lease: tuple[str, str] = ("kube-system", "vpa-admission-controller")
    admission_timeout: float = _LEASE_TIMEOUT
    seen: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
