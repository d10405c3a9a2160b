"""How does a component stand for a lease? As the flags say, under a name that no other process has."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from trellis.kube.client import Client
from trellis.kube.leases import Election, LeaseTimes
from trellis.kube.outcomes import Outcome
from trellis.kube.writer import Writer
from trellis.runtime.component_settings import LeaderSettings


def identity() -> str:
    """As client-go has it: the host, which is the pod, and something that a restart does not repeat."""
    return f"{socket.gethostname()}_{uuid4()}"


def candidate(
    client: Client,
    leader: LeaderSettings,
    *,
    report: Callable[[Outcome], None],
    on_change: Callable[[bool], None],
    identity: str,
    lease: str = "",
) -> Election:
    """One candidate, for the lease of that name if it is given.

    Its writer has no fence: whoever is not leading must be able to take the lease.
    """
    return Election(
        client,
        Writer(client, record=report),
        name=lease or leader.leader_elect_resource_name,
        namespace=leader.leader_elect_resource_namespace,
        identity=identity,
        now=lambda: datetime.now(UTC),
        draw=random.random,
        times=LeaseTimes(
            leader.leader_elect_lease_duration.total_seconds(),
            leader.leader_elect_renew_deadline.total_seconds(),
            leader.leader_elect_retry_period.total_seconds(),
        ),
        on_change=on_change,
    )
