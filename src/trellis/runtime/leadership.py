"""Makes the candidate of a component for its lease, as its flags say and under an identity of its own."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from trellis.kube.client import Client
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.settings.component import LeaderSettings


def make_identity() -> str:
    """As client-go has it: the host, which is the pod, and something that a restart does not repeat."""
    return f"{socket.gethostname()}_{uuid4()}"


def make_candidate(
    client: Client,
    leader: LeaderSettings,
    *,
    report: Callable[[WriteOutcome], None],
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
