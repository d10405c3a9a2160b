"""Orders in any sequence, with any faults: never more machines than the highest order."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from support.worlds.providers.external_grpc import After, Before, Fault, GroupOfMachines, Late, MachineWorld, Sound
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus

statuses = st.sampled_from([status for status in CallStatus if status is not CallStatus.OK])
faults: st.SearchStrategy[Fault] = st.one_of(
    st.just(Sound()), st.builds(Before, statuses), st.builds(After, statuses), st.builds(Late, statuses)
)
# A target to order, a fault of the increase and of the read after it, seconds that pass, and whether late requests
# are carried out then.
steps = st.tuples(st.integers(0, 20), faults, faults, st.sampled_from([0.0, 5.0, 60.0]), st.booleans())


async def play(
    world: MachineWorld, sequence: list[tuple[int, Fault, Fault, float, bool]], *, restarts: bool
) -> tuple[int, int]:
    """The machines that there are in the end, and the highest target that was ordered."""
    highest = 0
    for target, increase, read, seconds, late in sequence:
        highest = max(highest, target)
        world.server.fail("NodeGroupIncreaseSize", increase)
        world.server.fail("NodeGroupTargetSize", Sound(), _answered(read))
        await world.order(target)
        world.server.forget_faults()
        if late:
            with contextlib.suppress(CallFailed):
                world.server.carry_out_late()
        await world.wait(seconds)
        if restarts:
            world.provider = world.restarted_provider()
    with contextlib.suppress(CallFailed):
        world.server.carry_out_late()
    return world.server.groups["pool"].wanted, highest


def _answered(fault: Fault) -> Fault:
    """A read changes nothing: it fails, or it does not."""
    return Before(fault.status) if isinstance(fault, (After, Late)) else fault


@given(st.lists(steps, max_size=8))
def test_one_process_never_orders_twice_what_is_carried_out_while_it_waits(
    sequence: list[tuple[int, Fault, Fault, float, bool]],
) -> None:
    """The server is of any kind; what is late is carried out before the next order."""
    in_time = [(target, increase, read, seconds, True) for target, increase, read, seconds, _ in sequence]
    there, highest = virtual_time.run(play(MachineWorld(GroupOfMachines(most=100)), in_time, restarts=False))
    assert there <= highest


@given(st.lists(steps, max_size=8), st.booleans())
def test_a_server_that_compares_sizes_never_orders_twice_whatever_happens(
    sequence: list[tuple[int, Fault, Fault, float, bool]], restarts: bool
) -> None:
    """Late requests may be carried out at any time, also those of processes that have ended."""
    world = MachineWorld(GroupOfMachines(most=100))
    world.server.knows_expected = True
    there, highest = virtual_time.run(play(world, sequence, restarts=restarts))
    assert there <= highest
