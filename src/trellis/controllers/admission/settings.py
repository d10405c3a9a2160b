"""What of the admission controller can be set? Every flag of upstream's, and those that only we have."""

from __future__ import annotations

from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.quantity import Quantity
from trellis.controllers.admission.certificate_settings import CertificateSettings
from trellis.controllers.admission.registration_settings import PresenceSettings, RegistrationSettings
from trellis.runtime.boosts import why_not_millicores
from trellis.runtime.component_settings import AccessSettings, ScopeSettings
from trellis.runtime.health_server import HealthSettings
from trellis.runtime.logs import LogSettings
from trellis.runtime.settings import Setting, Settings

_MILLISECOND: Final = Duration(10**6)


class ReviewSettings(Settings, frozen=True):
    """How reviews are taken and answered."""

    port: Annotated[
        int,
        Setting("Port on which reviews are taken, over HTTPS.", why="Upstream's.", minimum=0, maximum=65535),
    ] = 8000
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "Most CPU that a container is given for its start; a boost that would be more is cut.",
            why="Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=why_not_millicores,
        ),
    ] = None
    require_fit: Annotated[
        bool,
        Setting(
            "Cut a boost to what some node could give, if nothing else ran there.",
            why="Off: a cluster whose nodes come and go may well get one that is large enough. A warning is given.",
        ),
    ] = False
    owner_lookup_deadline: Annotated[
        Duration,
        Setting(
            "How long a pod waits for its controller to be asked for, if that is not known yet.",
            why="A watch is behind by milliseconds. A pod that waited longer would wait for a server in trouble.",
            minimum=_MILLISECOND,
            maximum=Duration.from_seconds(5),
        ),
    ] = Duration(500 * 10**6)


class AdmissionSettings(Settings, frozen=True):
    """All of it."""

    reviews: ReviewSettings = ReviewSettings()
    certificates: CertificateSettings = CertificateSettings()
    registration: RegistrationSettings = RegistrationSettings()
    presence: PresenceSettings = PresenceSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    health: HealthSettings = HealthSettings(address=":8944")
    logs: LogSettings = LogSettings()
