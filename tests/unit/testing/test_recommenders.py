"""The conformance suite: whoever breaks a rule is caught by that rule.

What comes with Trellis is put to it in `tests/simulation`.
"""

from __future__ import annotations

import random
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.core.recommend.amounts import CPU, LOWER, MIDDLE, UPPER
from trellis.core.recommend.parameters import Parameter, ParameterKind
from trellis.core.recommend.protocol import MEMORY, Estimates, ParameterValues, Rows
from trellis.testing.recommenders import CHECKS, SlowRecommender, conformance_tests, find_failures

# A machine that is busy says nothing about who is slow.
pytestmark = pytest.mark.filterwarnings("ignore::trellis.testing.recommenders.SlowRecommender")

Spoil = Callable[[Rows, Estimates, float], Estimates | None]


class Sound:
    """A recommender that keeps to every rule: what the others break."""

    name = "sound"
    needs_history = False
    parameters: tuple[Parameter, ...] = (
        Parameter("margin", ParameterKind.NUMBER, "Added on top.", 0.1, "fraction", 0.0, 10.0),
        Parameter("only", ParameterKind.CHOICE, "What to size.", "both", choices=("both", "cpu")),
    )

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        more = 1 + float(values["margin"])
        cpu, memory = (rows.percentiles(resource, (0.5, 0.9, 1.0)) * more for resource in (CPU, MEMORY))
        if values["only"] == "cpu":
            memory[:] = np.nan
        return self.spoiled(rows, Estimates.from_bounds(cpu, memory, {"samples": rows.count.astype(np.float64)}), now)

    def spoiled(self, _rows: Rows, answer: Estimates, _now: float) -> Estimates:
        return answer


def breaking(spoil: Spoil) -> type[Sound]:
    """A recommender that is sound but for one thing."""

    class Broken(Sound):
        def spoiled(self, rows: Rows, answer: Estimates, now: float) -> Estimates:
            return spoil(rows, answer, now) or answer

    return Broken


test_a_sound_one_passes = conformance_tests(Sound, examples=5)


def test_each_rule_has_a_description() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) == 13
    assert all(check.description.endswith(".") for check in CHECKS)


def swap(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[[LOWER, UPPER]] = answer.bounds[[UPPER, LOWER]]
    answer.bounds[LOWER] += 1


def lose_a_bound(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[UPPER] = np.nan


def go_below_zero(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[LOWER] = -1.0


def doubt_less_than_nothing(_rows: Rows, answer: Estimates, _now: float) -> Estimates:
    return Estimates(answer.bounds, confidence=np.full(answer.bounds.shape[-1], -0.5))


def answer_for_one(_rows: Rows, answer: Estimates, _now: float) -> Estimates:
    return Estimates(answer.bounds[..., :1])


def explain_one(_rows: Rows, answer: Estimates, _now: float) -> Estimates:
    return Estimates(answer.bounds, explanation={"why": ["because"]})


def explain_at_length(_rows: Rows, answer: Estimates, _now: float) -> Estimates:
    return Estimates(answer.bounds, explanation={"why": ["because " * 100] * answer.bounds.shape[-1]})


def forget_the_kills(rows: Rows, _answer: Estimates, _now: float) -> None:
    rows.usage.last_oom[:] = rows.usage.last_oom + 1


def compare_with_the_mean(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[:] += np.nan_to_num(answer.bounds[MIDDLE, CPU]).sum()


def size_by_place(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[:] += np.arange(answer.bounds.shape[-1])


def throw_dice(_rows: Rows, answer: Estimates, _now: float) -> None:
    answer.bounds[:] += random.random()  # noqa: S311


def read_the_clock(_rows: Rows, _answer: Estimates, _now: float) -> None:
    time.time()


def read_a_file(_rows: Rows, _answer: Estimates, _now: float) -> None:
    Path("/etc/hostname").exists()
    Path(__file__).read_bytes()


def call_home(_rows: Rows, _answer: Estimates, _now: float) -> None:
    with socket.socket() as home, warnings.catch_warnings():
        home.settimeout(0.001)


def fall_over_nobody(rows: Rows, _answer: Estimates, _now: float) -> None:
    if not len(rows):
        raise IndexError("nobody is there")


@pytest.mark.parametrize(
    ("spoil", "rule", "message"),
    [
        (swap, "returns-possible-estimates", "an invalid recommendation for row"),
        (lose_a_bound, "returns-possible-estimates", "upper bound nan"),
        (go_below_zero, "returns-possible-estimates", "lower bound -1"),
        (doubt_less_than_nothing, "returns-possible-estimates", "a confidence is negative"),
        (answer_for_one, "returns-the-right-shape", "returned bounds of shape"),
        (explain_one, "returns-the-right-shape", "a column why of 1 texts"),
        (explain_at_length, "returns-the-right-shape", "texts of more than 200 characters"),
        (fall_over_nobody, "returns-the-right-shape", "it raised IndexError for 0 rows: nobody is there"),
        (forget_the_kills, "leaves-rows-unchanged", "it modifies the rows"),
        (compare_with_the_mean, "treats-rows-independently", "the result for a row alone differs"),
        (size_by_place, "ignores-row-order", "the result for the rows in another order differs"),
        (throw_dice, "is-deterministic", "the result of a second call differs"),
        (read_the_clock, "reads-no-clock", "it reads a clock: time.time()"),
        (read_a_file, "does-no-io", "it does I/O: "),
        (call_home, "does-no-io", "it does I/O: socket."),
    ],
)
def test_a_recommender_that_breaks_a_rule_fails_its_check(spoil: Spoil, rule: str, message: str) -> None:
    assert message in failure_message(rule, breaking(spoil))


def failure_message(rule: str, make: Any) -> str:
    [check] = [candidate for candidate in CHECKS if candidate.name == rule]
    with pytest.raises(AssertionError) as caught:
        check.run(make)
    return str(caught.value)


class ByPlace(Sound):
    def spoiled(self, rows: Rows, answer: Estimates, now: float) -> Estimates:
        size_by_place(rows, answer, now)
        return answer


def test_only_broken_rules_are_reported() -> None:
    failures = {failure.check: failure.message for failure in find_failures(ByPlace)}
    assert sorted(failures) == ["ignores-row-order", "treats-rows-independently"]
    assert "the result for a row alone differs" in failures["treats-rows-independently"]


class Unpicklable(Sound):
    def __init__(self) -> None:
        self.secret = lambda: 1


class Stateful(Sound):
    """Another answer from every instance."""

    instances = 0

    def __init__(self) -> None:
        Stateful.instances += 1
        self.mine = Stateful.instances

    def spoiled(self, _rows: Rows, answer: Estimates, _now: float) -> Estimates:
        return Estimates(answer.bounds + self.mine)


class Curious(Sound):
    def spoiled(self, _rows: Rows, answer: Estimates, _now: float) -> Estimates:
        return answer

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        _ = values["secret"]
        return super().estimate(rows, values, now)


class Forgetful(Sound):
    parameters = (*Sound.parameters, Parameter("weeks", ParameterKind.WHOLE, "Unused.", 1, "weeks", 1, 5))


class Delicate(Sound):
    def spoiled(self, _rows: Rows, answer: Estimates, _now: float) -> Estimates:
        return answer

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        if values["margin"] == 10.0:
            raise OverflowError("too much")
        return super().estimate(rows, values, now)


class Boundless(Sound):
    parameters = (Parameter("margin", ParameterKind.NUMBER, "Added on top.", 0.1), Sound.parameters[1])


class Nameless(Sound):
    name = ""


@pytest.mark.parametrize(
    ("make", "rule", "message"),
    [
        (Unpicklable, "survives-pickling", "it cannot be pickled"),
        (Stateful, "is-deterministic", "the result of another instance differs"),
        (Curious, "reads-declared-parameters", "it reads the parameter 'secret', which it does not declare"),
        (Forgetful, "reads-declared-parameters", "it declares weeks and never reads it"),
        (Delicate, "accepts-every-parameter-value", "it raised OverflowError for 28 rows, margin=10.0: too much"),
        (Boundless, "declares-itself", "the parameter margin has no range"),
        (Nameless, "declares-itself", "it has no attribute `name` of type str"),
        (object, "declares-itself", "it has no method `estimate`"),
    ],
)
def test_a_wrongly_constructed_recommender_fails_its_check(make: Any, rule: str, message: str) -> None:
    assert message in failure_message(rule, make)


def test_a_slow_recommender_passes_with_a_warning() -> None:
    def dawdle(rows: Rows, _answer: Estimates, _now: float) -> None:
        end = time.process_time() + (0.25 if len(rows) > 100 else 0.0)
        while time.process_time() < end:
            pass

    [check] = [candidate for candidate in CHECKS if candidate.name == "is-fast"]
    with pytest.warns(SlowRecommender, match="10,000 rows would take"):
        check.run(breaking(dawdle))
