"""Arithmetic of replicas: what a group has ordered, and the writes that bring it there.

Cluster API counts a Machine as a replica until it is gone. It takes one that is being deleted for the first victim of a
decrease, and makes no new Machine in its place. Two rules follow:

- An order raises the replicas by the Machines that are leaving, too, and notes in an annotation how many are wanted.
  When so many Machines are there that stay, the replicas go back to that number: the decrease is spent on the Machines
  that are leaving.
- A Machine is named for deletion only while `replicas` is the number of Machines that are not being deleted. Else the
  decrease would be spent on another one, and the named Machine would stay, marked as a later victim.

Both are decided from the objects alone, so that any process can continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.cluster_api.machines import ClusterApiMachine, ScalableMachines
from trellis.providers.cluster_api.objects import MachineGroup, ScalableKind, read_revision

# On a Machine: its release was ordered, at this time. On a group: how many Machines are wanted that stay.
RELEASED: Final = "nodes.trellis.x-k8s.io/released"
WANTED: Final = "nodes.trellis.x-k8s.io/wanted-replicas"


class Phase(StrEnum):
    """Whether Machines correspond to the replicas of a group."""

    SETTLED = "Settled"
    # Cluster API has not taken over the last change yet.
    CHANGING = "Changing"
    # Machines of an old template are being replaced.
    ROLLING_OUT = "RollingOut"


class ReplicaCounts(msgspec.Struct, frozen=True):
    """The replicas of a group and its Machines.

    `live` Machines are not being deleted. Of these, `released` are to leave. `deleting` are those in the place of a new
    Machine. `wanted` is the annotation of an order, if there is one.
    """

    replicas: int
    live: int
    released: int = 0
    deleting: int = 0
    wanted: int | None = None
    phase: Phase = Phase.SETTLED

    @property
    def staying(self) -> int:
        """How many Machines stay."""
        return self.live - self.released

    @property
    def target(self) -> int:
        """How many Machines have been ordered and not been released.

        Machines that Cluster API can make only after others are gone do not count: pods may wait for them, and the
        others for those pods.
        """
        if self.wanted is not None:
            return self.wanted
        missing = max(0, self.replicas - self.live)
        blocked = min(self.deleting, missing) if self.phase is not Phase.ROLLING_OUT else 0
        return min(self.replicas, self.staying + missing - blocked)


class ReplicaChange(msgspec.Struct, frozen=True):
    """New replicas of a group, and the number that is wanted in the end; None removes it."""

    replicas: int
    wanted: int | None = None


class Settlement(msgspec.Struct, frozen=True):
    """What a group needs now.

    `names` is whether its released Machines are named for deletion first. `surplus` is how many Machines were made by
    mistake.
    """

    change: ReplicaChange | None = None
    names: bool = False
    surplus: int = 0


NOTHING_NEEDED: Final = Settlement()


def count_replicas(group: MachineGroup) -> ReplicaCounts:
    """The counts of a group whose replicas are set."""
    phase = find_phase(group)
    machines = group.machines
    if group.kind is ScalableKind.DEPLOYMENT and phase is not Phase.ROLLING_OUT and group.newest_set is not None:
        uid = group.newest_set.metadata.uid
        # Machines of an old MachineSet that are being deleted stand in the way of no new one.
        machines = tuple(machine for machine in machines if _is_controlled_by(machine, uid))
    live = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
    if not group.has_machines:
        return ReplicaCounts(group.written.spec.replicas or 0, group.written.spec.replicas or 0, phase=phase)
    return ReplicaCounts(
        replicas=group.written.spec.replicas or 0,
        live=len(live),
        released=sum(is_released(machine) for machine in live),
        deleting=len(machines) - len(live),
        wanted=read_wanted(group.written.metadata.annotations),
        phase=phase,
    )


def is_released(machine: ClusterApiMachine) -> bool:
    """Whether the release of a Machine was ordered."""
    return RELEASED in machine.metadata.annotations


def read_wanted(annotations: Mapping[str, str]) -> int | None:
    """The number of an order in the annotations of a group; None without one that can be read."""
    text = annotations.get(WANTED, "")
    return int(text) if text.isdecimal() else None


def find_phase(group: MachineGroup) -> Phase:
    """Whether the Machines of a group correspond to its replicas, as far as the objects say."""
    written = group.written
    if group.kind is ScalableKind.DEPLOYMENT:
        newest = group.newest_set
        others = [member for member in group.sets if member is not newest]
        if written.status.has_condition("RollingOut") or any(_is_in_use(member, group.machines) for member in others):
            return Phase.ROLLING_OUT
        if newest is None or newest.spec.replicas != written.spec.replicas:
            return Phase.CHANGING
        if read_revision(newest)[0] < read_revision(written)[0]:
            # The cache does not have the MachineSet of a new template yet.
            return Phase.CHANGING
    return Phase.SETTLED if written.status.observed_generation >= written.metadata.generation else Phase.CHANGING


def plan_order(counts: ReplicaCounts, target: int) -> ReplicaChange:
    """The change by which a group gets `target` Machines that stay, more than it has."""
    if counts.phase is Phase.ROLLING_OUT:
        # A rollout replaces released Machines; the others of its surge do not count.
        base = counts.replicas if counts.wanted is None else counts.wanted + counts.released
        return ReplicaChange(base + target - counts.target)
    leaving = counts.released + counts.deleting
    return ReplicaChange(target + leaving, target if leaving else None)


def plan_settlement(counts: ReplicaCounts) -> Settlement:
    """What a group needs whose order or release is under way."""
    if counts.wanted is not None:
        return _finish_order(counts, counts.wanted)
    if counts.phase is Phase.SETTLED and counts.replicas == counts.live and counts.released:
        return Settlement(ReplicaChange(counts.staying), names=True)
    return NOTHING_NEEDED


def _finish_order(counts: ReplicaCounts, wanted: int) -> Settlement:
    if counts.phase is Phase.ROLLING_OUT:
        return Settlement(ReplicaChange(wanted + counts.released))
    if counts.phase is Phase.CHANGING:
        return NOTHING_NEEDED
    if counts.staying >= wanted:
        # More than were wanted: a Machine was gone before the replicas went back, and Cluster API made another.
        return Settlement(ReplicaChange(counts.staying), names=True, surplus=counts.staying - wanted)
    leaving = counts.released + counts.deleting
    if not leaving:
        return Settlement(ReplicaChange(wanted))
    if counts.replicas != wanted + leaving:
        return Settlement(ReplicaChange(wanted + leaving, wanted))
    return NOTHING_NEEDED


def _is_in_use(machine_set: ScalableMachines, machines: tuple[ClusterApiMachine, ...]) -> bool:
    uid = machine_set.metadata.uid
    return bool(machine_set.spec.replicas) or any(
        machine.metadata.deletion_timestamp is None and _is_controlled_by(machine, uid) for machine in machines
    )


def _is_controlled_by(machine: ClusterApiMachine, uid: str) -> bool:
    owner = machine.metadata.controller
    return owner is not None and owner.uid == uid
