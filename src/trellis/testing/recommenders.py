"""The conformance suite for recommenders.

With pytest, one line makes a test of every rule:

    from trellis.testing.recommenders import conformance_tests

    test_conformance = conformance_tests(PeakOfWeek)

Without it, `find_failures(PeakOfWeek)` lists the broken rules. Either takes a factory of the recommender: the class
itself, or a function. The rules are those of `trellis.core.recommend.protocol`; each is a function that raises
`Nonconformance` with what is wrong, for which rows and with which parameters. The rows they are tried on are in
`trellis.testing.rows`, and `trellis.testing.usage` has Hypothesis strategies for more of them.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from trellis.base.errors import InvalidInput
from trellis.controllers.recommender.plugins.worker_messages import decode, encode, from_reply, to_reply
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValue, read_parameters
from trellis.core.recommend.protocol import LONGEST_EXPLANATION_TEXT, Recommender, Rows
from trellis.core.recommend.validation import needs_runs, read_declaration
from trellis.testing.conformance import (
    Check,
    Failure,
    Nonconformance,
    collect_failures,
    make_checks,
    parametrized_test,
)
from trellis.testing.estimates import (
    default_values,
    fingerprint,
    request_estimates,
    require_equal,
    require_possible,
    select_estimates,
    select_rows,
    try_estimating,
)
from trellis.testing.isolation import forbid_clock, forbid_io
from trellis.testing.rows import NOW, UsageExample, build_rows, example_rows

Factory: TypeAlias = Callable[[], Recommender]

# The CPU seconds that 10,000 rows may take.
ENOUGH_SECONDS: Final = 2.0
_MANY_ROWS: Final = 10_000
_TIMED_ROWS: Final = 1_000


class SlowRecommender(UserWarning):
    """A recommender takes longer than it should."""


def declares_itself(make: Factory) -> None:
    """It has a name, states whether it needs history, and declares its parameters with unit, range and meaning."""
    try:
        declared = read_declaration(make())
    except InvalidInput as error:
        raise Nonconformance(f"{error.value} {error.rule}") from error
    for parameter in declared.parameters:
        if parameter.kind in {ParameterKind.NUMBER, ParameterKind.WHOLE, ParameterKind.DURATION} and (
            parameter.minimum is None or parameter.maximum is None
        ):
            raise Nonconformance(f"the parameter {parameter.name} has no range: declare a minimum and a maximum")
        if not parameter.meaning.endswith("."):
            raise Nonconformance(f"the meaning of the parameter {parameter.name} is not a sentence with a full stop")


def returns_the_right_shape(make: Factory) -> None:
    """Its columns have the required shapes, also for no rows, and its explanation has an entry for each row."""
    for rows in (*_cases(make()), select_rows(example_rows(history=False), [])):
        answer = request_estimates(make(), rows)
        for name, column in answer.explanation.items():
            if not isinstance(column, np.ndarray) and any(len(text) > LONGEST_EXPLANATION_TEXT for text in column):
                raise Nonconformance(
                    f"the explanation {name} has texts of more than {LONGEST_EXPLANATION_TEXT} characters"
                )


def returns_possible_estimates(make: Factory) -> None:
    """Lower bound, target and upper bound are finite, not negative and in this order, or all three NaN."""
    for rows in _cases(make()):
        require_possible(request_estimates(make(), rows), rows)


def leaves_rows_unchanged(make: Factory) -> None:
    """It does not modify the rows that it gets."""
    for rows in _cases(make()):
        before = fingerprint(rows)
        request_estimates(make(), rows)
        if fingerprint(rows) != before:
            raise Nonconformance("it modifies the rows that it gets")


def is_deterministic(make: Factory) -> None:
    """Two calls with the same rows return the same result, and so do two instances."""
    for rows in _cases(make()):
        recommender = make()
        first = request_estimates(recommender, rows)
        require_equal(first, request_estimates(recommender, rows), rows, "of a second call")
        require_equal(first, request_estimates(make(), rows), rows, "of another instance")


def treats_rows_independently(make: Factory) -> None:
    """The result for a row does not depend on the other rows."""
    for rows in _cases(make()):
        together = request_estimates(make(), rows)
        for at in range(len(rows)):
            alone = select_rows(rows, [at])
            require_equal(
                select_estimates(together, np.array([at])), request_estimates(make(), alone), alone, "for a row alone"
            )


def ignores_row_order(make: Factory) -> None:
    """The result for a row does not depend on the order of the rows."""
    for rows in _cases(make()):
        order = np.arange(len(rows))[::-1].copy()
        turned = select_rows(rows, order.tolist())
        require_equal(
            select_estimates(request_estimates(make(), rows), order),
            request_estimates(make(), turned),
            turned,
            "for the rows in another order",
        )


def accepts_every_parameter_value(make: Factory) -> None:
    """Both ends of every range, and every choice, give a valid result; values beyond them are refused."""
    recommender = make()
    for parameter in recommender.parameters:
        for value in _list_extremes(parameter):
            for rows in _cases(recommender):
                require_possible(
                    request_estimates(make(), rows, {parameter.name: value}), rows, f"{parameter.name}={value}"
                )
        for text in _list_invalid_values(parameter):
            if not read_parameters(recommender.parameters, {parameter.name: text}).problems:
                raise Nonconformance(f"{parameter.name}={text} is not refused")
    if not read_parameters(recommender.parameters, {"no-such-parameter": "1"}).problems:
        raise Nonconformance("a parameter that it does not declare is not refused")


def reads_declared_parameters(make: Factory) -> None:
    """It reads all parameters that it declares, and no others."""
    recommender = make()
    values = _ReadTracker(default_values(recommender))
    for rows in _cases(recommender):
        try:
            make().estimate(rows, values, NOW)
        except KeyError as error:
            raise Nonconformance(f"it reads the parameter {error}, which it does not declare") from error
    unread = sorted(set(values) - values.read)
    if unread:
        raise Nonconformance(f"it declares {', '.join(unread)} and never reads it")


def does_no_io(make: Factory) -> None:
    """After its first call, `estimate` opens no files, sockets or processes, and imports nothing."""
    for rows in _cases(make()):
        recommender = make()
        request_estimates(recommender, rows)
        with forbid_io() as attempts:
            try_estimating(recommender, rows)
        if attempts:
            raise Nonconformance(f"it does I/O: {attempts[0]}")


def reads_no_clock(make: Factory) -> None:
    """It takes the time from `now`, and reads no clock."""
    for rows in _cases(make()):
        recommender = make()
        with forbid_clock() as attempts:
            try_estimating(recommender, rows)
        if attempts:
            raise Nonconformance(f"it reads a clock: {attempts[0]}; `now` is the time")


def survives_pickling(make: Factory) -> None:
    """It can be pickled, and its results are the same after they leave a worker process."""
    recommender = make()
    try:
        copy: Recommender = pickle.loads(pickle.dumps(recommender))  # noqa: S301 - made here
    except Exception as error:
        raise Nonconformance(f"it cannot be pickled: {type(error).__name__}: {error}") from error
    for rows in _cases(recommender):
        answer = request_estimates(recommender, rows)
        require_equal(answer, request_estimates(copy, rows), rows, "of a pickled copy")
        reply = decode(encode(to_reply(answer)))
        require_equal(answer, from_reply(reply), rows, "from a worker process")  # type: ignore[arg-type]  # as sent


def is_fast(make: Factory) -> None:
    """Ten thousand rows take at most two seconds of CPU time; more is a warning."""
    recommender = make()
    day = 0.5 + 0.4 * np.sin(np.arange(96) / 24 * 2 * np.pi)
    used = [UsageExample(day * (1 + at), 1e9 * day) for at in range(_TIMED_ROWS)]
    rows = build_rows(used, history=recommender.needs_history, runs=needs_runs(recommender))
    request_estimates(recommender, select_rows(rows, [0]))
    begin = time.process_time()
    request_estimates(recommender, rows)
    seconds = (time.process_time() - begin) * _MANY_ROWS / _TIMED_ROWS
    if seconds > ENOUGH_SECONDS:
        warning = f"{_MANY_ROWS:,} rows would take {seconds:.1f} s of CPU time, more than {ENOUGH_SECONDS:g} s"
        warnings.warn(warning, SlowRecommender, stacklevel=2)


class _ReadTracker(Mapping[str, ParameterValue]):
    """Parameter values that record which of them were read."""

    def __init__(self, values: Mapping[str, ParameterValue]) -> None:
        self._values = values
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> ParameterValue:
        value = self._values[name]
        self.read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _cases(recommender: Recommender) -> Iterator[Rows]:
    """Rows of many kinds. A recommender that needs history is also tried without, as at its first start."""
    yield _copy_rows(example_rows(history=False))
    if recommender.needs_history:
        yield _copy_rows(example_rows(history=True))
    if needs_runs(recommender):
        yield _copy_rows(example_rows(history=recommender.needs_history, runs=True))


def _copy_rows(rows: Rows) -> Rows:
    """A deep copy, so that a check that changes rows does not affect the next one."""
    copy: Rows = pickle.loads(pickle.dumps(Rows(rows.usage.detach(history=True, runs=True), rows.containers)))  # noqa: S301
    return copy


def _list_extremes(parameter: Parameter) -> Iterator[ParameterValue]:
    """Both ends of a parameter's range, or all of its choices."""
    if parameter.kind is ParameterKind.CHOICE:
        yield from parameter.choices
    elif parameter.kind is ParameterKind.SWITCH:
        yield from (True, False)
    for bound in (parameter.minimum, parameter.maximum):
        if bound is not None:
            yield parameter.read(parameter.format(bound))


def _list_invalid_values(parameter: Parameter) -> Iterator[str]:
    """Values that the parameter must refuse."""
    yield "surely no value of anything"
    if parameter.kind in {ParameterKind.NUMBER, ParameterKind.WHOLE}:
        yield from (
            str(bound + step) for bound, step in ((parameter.minimum, -1), (parameter.maximum, 1)) if bound is not None
        )


__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "SlowRecommender", "conformance_tests", "find_failures"]


RecommenderRule: TypeAlias = Callable[[Factory], None]

CHECKS: Final[tuple[Check[RecommenderRule], ...]] = make_checks(
    declares_itself,
    returns_the_right_shape,
    returns_possible_estimates,
    leaves_rows_unchanged,
    is_deterministic,
    treats_rows_independently,
    ignores_row_order,
    accepts_every_parameter_value,
    reads_declared_parameters,
    does_no_io,
    reads_no_clock,
    survives_pickling,
    is_fast,
)


def find_failures(make: Factory) -> list[Failure]:
    """Every rule that a recommender breaks; none if it conforms."""
    return collect_failures(CHECKS, lambda check: check.run(make))


def conformance_tests(make: Factory, *, examples: int = 25) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule and one for rows that Hypothesis generates."""
    any_rows_check: Check[RecommenderRule] = Check(
        "answers-anything", "Any rows that Hypothesis generates get a valid result.", _check_any_rows(examples)
    )
    return parametrized_test([*CHECKS, any_rows_check], lambda check: check.run(make))


def _check_any_rows(examples: int) -> Callable[[Factory], None]:
    def run(make: Factory) -> None:
        from hypothesis import HealthCheck, given, settings  # noqa: PLC0415

        from trellis.testing.usage import any_rows  # noqa: PLC0415

        recommender: Any = make()

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(any_rows(history=recommender.needs_history, runs=needs_runs(recommender)))
        def ask(rows: Any) -> None:
            require_possible(request_estimates(make(), rows), rows)

        ask()

    return run
