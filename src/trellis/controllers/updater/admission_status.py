"""Whether an admission controller is running: it renews a Lease while it sizes pods.

Without it, a pod that is evicted is created as it was. The Lease is read when a pod is to be evicted, at most once in a
few seconds. If it cannot be read, the admission controller counts as absent, as upstream has it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.settings import AdmissionStatusSettings
from trellis.core.resize.planner import is_lease_renewed
from trellis.kube.client import Client
from trellis.kube.resources import LEASES
from trellis.runtime.telemetry.logs import Logger

# How long an answer is good.
FRESH_SECONDS: Final = 5.0

_log: Final = Logger("trellis.updater")


class AdmissionStatus:
    """Whether the status Lease is renewed. `now` is the wall clock, as in the Lease."""

    def __init__(self, client: Client, settings: AdmissionStatusSettings, now: Callable[[], float]) -> None:
        self._client = client
        self._settings = settings
        self._now = now
        self._asked = -math.inf
        self._why: str | None = "nobody has asked yet"
        # The same in a word, for the metrics.
        self.absence = ""
        self._asking = asyncio.Lock()

    @property
    def is_live(self) -> bool:
        """What was last known."""
        return self._why is None

    async def ask(self) -> bool:
        """Whether evictions may go on; the answer is a few seconds old at most."""
        if not self._settings.use_admission_controller_status:
            self._why, self.absence = None, ""
            return True
        async with self._asking:
            clock = asyncio.get_running_loop().time()
            if clock - self._asked >= FRESH_SECONDS:
                self.absence, why = await self._why_absent()
                if why != self._why:
                    _log.info("the admission controller is there") if why is None else _log.warning(
                        "nothing is evicted: the admission controller is absent", why=why
                    )
                self._why, self._asked = why, clock
        return self.is_live

    async def _why_absent(self) -> tuple[str, str | None]:
        given = self._settings
        name, namespace = (
            given.admission_controller_status_lease_name,
            given.admission_controller_status_lease_namespace,
        )
        try:
            lease = await self._client.get(LEASES, name, namespace or "kube-system")
        except (KubeError, UnreadableObject) as error:
            return named.STATUS_ERROR, str(error)
        if not is_lease_renewed(lease, given.admission_controller_status_lease_timeout.total_seconds(), self._now()):
            return named.STATUS_INVALID, f"the Lease {namespace}/{name} was not renewed for too long"
        return "", None
