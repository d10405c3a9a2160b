"""What goes wrong, when, and for whom."""

from __future__ import annotations

import pytest

from trellis.api.scenario.spec import FAULT_KINDS
from trellis.sim import faults
from trellis.sim.faults import Faults, is_affected
from trellis.sim.fleet import Fault


def test_every_fault_that_a_scenario_may_name_is_modelled() -> None:
    known = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
    assert known == set(FAULT_KINDS)
    assert faults.__doc__ is not None
    assert all(f"| {kind} " in faults.__doc__ for kind in FAULT_KINDS)


@pytest.mark.parametrize(
    ("now", "names", "holds"),
    [
        (9.0, (), False),
        (10.0, (), True),
        (19.9, (), True),
        (20.0, (), False),
        (15.0, ("web-1",), True),
        (15.0, ("other", "web-2"), True),
        (15.0, ("other",), False),
    ],
)
def test_a_fault_holds_for_its_duration_and_its_objects(now: float, names: tuple[str, ...], holds: bool) -> None:
    faults = Faults([Fault("slow-starts", 10.0, 20.0, "web-*")])
    assert faults.is_active("slow-starts", now, *names) is holds
    assert not faults.is_active("node-down", now, *names)


def test_faults_are_listed_by_kind() -> None:
    first, second = Fault("a", 0.0, 1.0), Fault("b", 0.0, 1.0, "x?")
    faults = Faults([first, second])
    assert (faults.list_faults("a"), faults.list_faults("b"), faults.list_faults("c")) == ((first,), (second,), ())
    assert is_affected(second, "xy")
    assert not is_affected(second, "x", "xyz")
