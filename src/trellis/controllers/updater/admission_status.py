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
        self._read_at = -math.inf
        self._problem: str | None = "nobody has asked yet"
        # The problem as a label of metrics.
        self.absence = ""
        self._reading = asyncio.Lock()

    @property
    def is_live(self) -> bool:
        """Whether the Lease was renewed when it was last read."""
        return self._problem is None

    async def ask(self) -> bool:
        """Whether evictions may go on; the answer is a few seconds old at most."""
        if not self._settings.use_admission_controller_status:
            self._problem, self.absence = None, ""
            return True
        async with self._reading:
            clock = asyncio.get_running_loop().time()
            if clock - self._read_at >= FRESH_SECONDS:
                self.absence, problem = await self._read_absence()
                if problem != self._problem:
                    _log.info("the admission controller is there") if problem is None else _log.warning(
                        "nothing is evicted: the admission controller is absent", why=problem
                    )
                self._problem, self._read_at = problem, clock
        return self.is_live

    async def _read_absence(self) -> tuple[str, str | None]:
        settings = self._settings
        name, namespace = (
            settings.admission_controller_status_lease_name,
            settings.admission_controller_status_lease_namespace,
        )
        try:
            lease = await self._client.get(LEASES, name, namespace or "kube-system")
        except (KubeError, UnreadableObject) as error:
            return named.STATUS_ERROR, str(error)
        if not is_lease_renewed(lease, settings.admission_controller_status_lease_timeout.total_seconds(), self._now()):
            return named.STATUS_INVALID, f"the Lease {namespace}/{name} was not renewed for too long"
        return "", None
