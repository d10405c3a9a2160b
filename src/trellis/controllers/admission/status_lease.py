"""Renews the status Lease, which updaters read before they evict, while this process sizes pods.

A pod that is evicted while no webhook answers is created as it was, and is evicted again. Several replicas renew the
same Lease in turn: it says that a webhook is running, not which one leads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Final

from trellis.api.kube.coordination import LeaseSpec
from trellis.base.times import convert_to_utc
from trellis.controllers.admission.settings import StatusLeaseSettings
from trellis.kube.client import Client
from trellis.kube.lease_records import LeaseWriter, record_document
from trellis.kube.resources import LEASES
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.passes import PassReport, Periodic
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.admission")


class StatusLease:
    """Renews the status Lease while `find_absence_reason` returns None. `run` in a task of its own."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: StatusLeaseSettings,
        *,
        namespace: str,
        identity: str,
        find_absence_reason: Callable[[], str | None],
        now: Callable[[], datetime],
    ) -> None:
        self._writer = writer
        self._writes = LeaseWriter(client, writer)
        self._lease = Target(LEASES, settings.status_lease_name, settings.status_lease_namespace or namespace)
        self._identity = identity
        self._find_absence_reason = find_absence_reason
        self._now = now
        self._seconds = settings.status_lease_update_interval.total_seconds()
        self._reported: str | None = None

    async def run(self) -> None:
        """Renew at once and then at the interval, until cancelled. Then the Lease expires."""
        # No jitter: an updater counts the seconds since the last renewal.
        loop = Periodic("presence", self.renew, self._seconds, on_pass=_report_pass, jitter=0.0, limit=self._seconds)
        await loop.run()

    async def renew(self) -> None:
        """Renew the Lease once, if pods are being sized."""
        absence = self._find_absence_reason()
        if absence != self._reported:
            self._reported = absence
            _log.info("renewal of the status Lease skipped", why=absence) if absence else _log.info(
                "renewing the status Lease"
            )
        if absence is None:
            outcome = await self._patch()
            if outcome.result is Result.GONE:
                await self._create()

    async def _patch(self) -> WriteOutcome:
        """Renew without a resource version, because any replica may have renewed last."""
        fields = {"holderIdentity", "leaseDurationSeconds", "renewTime"}
        record = {name: value for name, value in record_document(self._record()).items() if name in fields}
        return await self._writes.write(self._lease, record)

    async def _create(self) -> WriteOutcome:
        metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
        return await self._writer.write(CreateObject(self._lease, lease | {"spec": record_document(self._record())}))

    def _record(self) -> LeaseSpec:
        moment = convert_to_utc(self._now())
        return LeaseSpec(self._identity, math.ceil(self._seconds), moment, moment)


def _report_pass(report: PassReport) -> None:
    if report.error is not None and report.failures == 1:
        _log.warning("renewal of the status Lease failed", why=report.error)
