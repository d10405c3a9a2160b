"""The conformance suite for recommenders.

With pytest, one line makes a test of every rule:

    from trellis.testing.recommenders import conformance_tests

    test_conformance = conformance_tests(PeakOfWeek)

Without it, `failures_of(PeakOfWeek)` lists what is wrong. Either takes something that makes a recommender: the class
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
    ask_quietly,
    ask_recommender,
    default_values,
    fingerprint,
    must_agree,
    must_be_possible,
    select_estimates,
    select_rows,
)
from trellis.testing.isolation import no_clock, no_io
from trellis.testing.rows import NOW, Used, example_rows, rows_of

Factory: TypeAlias = Callable[[], Recommender]

# What 10,000 rows should take at most, in seconds of a processor.
ENOUGH_SECONDS: Final = 2.0
_MANY_ROWS: Final = 10_000
_TIMED_ROWS: Final = 1_000


class SlowRecommender(UserWarning):
    """A recommender takes longer than it should."""


def declares_itself(make: Factory) -> None:
    """It has a name, says whether it needs history, and declares its parameters with unit, range and meaning."""
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
            raise Nonconformance(f"the meaning of the parameter {parameter.name} is no sentence")


def answers_in_shape(make: Factory) -> None:
    """Its columns have the shapes that were asked for, also of no rows at all, and its explanation is as long."""
    for rows in (*_cases(make()), select_rows(example_rows(history=False), [])):
        answer = ask_recommender(make(), rows)
        for name, column in answer.explanation.items():
            if not isinstance(column, np.ndarray) and any(len(text) > LONGEST_EXPLANATION_TEXT for text in column):
                raise Nonconformance(
                    f"the explanation {name} has texts of more than {LONGEST_EXPLANATION_TEXT} characters"
                )


def answers_what_can_be(make: Factory) -> None:
    """Lower bound, target and upper bound are finite, not negative and in this order, or all three NaN."""
    for rows in _cases(make()):
        must_be_possible(ask_recommender(make(), rows), rows)


def changes_nothing(make: Factory) -> None:
    """What it is given is as it was when it has answered."""
    for rows in _cases(make()):
        before = fingerprint(rows)
        ask_recommender(make(), rows)
        if fingerprint(rows) != before:
            raise Nonconformance("the rows are not what they were before it was asked about them")


def repeats_itself(make: Factory) -> None:
    """Asked twice in a row it says the same, and so does another instance."""
    for rows in _cases(make()):
        recommender = make()
        first = ask_recommender(recommender, rows)
        must_agree(first, ask_recommender(recommender, rows), rows, "asked a second time")
        must_agree(first, ask_recommender(make(), rows), rows, "another instance")


def answers_each_row_alone(make: Factory) -> None:
    """A row gets the same answer whether it is asked about alone or among others."""
    for rows in _cases(make()):
        together = ask_recommender(make(), rows)
        for at in range(len(rows)):
            alone = select_rows(rows, [at])
            must_agree(
                select_estimates(together, np.array([at])), ask_recommender(make(), alone), alone, "asked about alone"
            )


def ignores_order(make: Factory) -> None:
    """The order of rows makes no difference."""
    for rows in _cases(make()):
        order = np.arange(len(rows))[::-1].copy()
        turned = select_rows(rows, order.tolist())
        must_agree(
            select_estimates(ask_recommender(make(), rows), order),
            ask_recommender(make(), turned),
            turned,
            "asked in another order",
        )


def takes_every_parameter(make: Factory) -> None:
    """Both ends of every range and every choice give a possible answer; what is beyond them is refused."""
    recommender = make()
    for parameter in recommender.parameters:
        for value in _extremes_of(parameter):
            for rows in _cases(recommender):
                must_be_possible(
                    ask_recommender(make(), rows, {parameter.name: value}), rows, f"{parameter.name}={value}"
                )
        for text in _refused_values(parameter):
            if not read_parameters(recommender.parameters, {parameter.name: text}).problems:
                raise Nonconformance(f"{parameter.name}={text} is not refused")
    if not read_parameters(recommender.parameters, {"no-such-parameter": "1"}).problems:
        raise Nonconformance("a parameter that it does not declare is not refused")


def reads_what_it_declares(make: Factory) -> None:
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
    """It opens no files, sockets or processes while it answers. What it imports, it has imported before."""
    for rows in _cases(make()):
        recommender = make()
        ask_recommender(recommender, rows)
        with no_io() as attempts:
            ask_quietly(recommender, rows)
        if attempts:
            raise Nonconformance(f"it does I/O: {attempts[0]}")


def reads_no_clock(make: Factory) -> None:
    """It takes the time from `now`."""
    for rows in _cases(make()):
        recommender = make()
        with no_clock() as attempts:
            ask_quietly(recommender, rows)
        if attempts:
            raise Nonconformance(f"it reads a clock: {attempts[0]}; `now` is the time")


def can_be_sent(make: Factory) -> None:
    """It can be pickled, and its answers come out of a worker process as they went in."""
    recommender = make()
    try:
        copy: Recommender = pickle.loads(pickle.dumps(recommender))  # noqa: S301 - made here
    except Exception as error:
        raise Nonconformance(f"it cannot be pickled: {type(error).__name__}: {error}") from error
    for rows in _cases(recommender):
        answer = ask_recommender(recommender, rows)
        must_agree(answer, ask_recommender(copy, rows), rows, "a copy of it")
        reply = decode(encode(to_reply(answer)))
        must_agree(answer, from_reply(reply), rows, "what comes out of a worker process")  # type: ignore[arg-type]  # as sent


def is_quick(make: Factory) -> None:
    """Ten thousand rows take two seconds of a processor at most. What takes longer is a warning."""
    recommender = make()
    day = 0.5 + 0.4 * np.sin(np.arange(96) / 24 * 2 * np.pi)
    used = [Used(day * (1 + at), 1e9 * day) for at in range(_TIMED_ROWS)]
    rows = rows_of(used, history=recommender.needs_history, runs=needs_runs(recommender))
    ask_recommender(recommender, select_rows(rows, [0]))
    begin = time.process_time()
    ask_recommender(recommender, rows)
    seconds = (time.process_time() - begin) * _MANY_ROWS / _TIMED_ROWS
    if seconds > ENOUGH_SECONDS:
        warning = f"{_MANY_ROWS:,} rows would take {seconds:.1f} s, and {ENOUGH_SECONDS:g} s are enough"
        warnings.warn(warning, SlowRecommender, stacklevel=2)


class _ReadTracker(Mapping[str, ParameterValue]):
    """Values of parameters, and which of them were read."""

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
    """Rows of every sort; one that needs history must also do without, because there is none at first."""
    yield _copy_rows(example_rows(history=False))
    if recommender.needs_history:
        yield _copy_rows(example_rows(history=True))
    if needs_runs(recommender):
        yield _copy_rows(example_rows(history=recommender.needs_history, runs=True))


def _copy_rows(rows: Rows) -> Rows:
    """A copy, so that what one rule finds changed is whole again for the next."""
    copy: Rows = pickle.loads(pickle.dumps(Rows(rows.usage.detach(history=True, runs=True), rows.containers)))  # noqa: S301
    return copy


def _extremes_of(parameter: Parameter) -> Iterator[ParameterValue]:
    """Both ends of its range, or all there is to choose from."""
    if parameter.kind is ParameterKind.CHOICE:
        yield from parameter.choices
    elif parameter.kind is ParameterKind.SWITCH:
        yield from (True, False)
    for bound in (parameter.minimum, parameter.maximum):
        if bound is not None:
            yield parameter.read(parameter.show(bound))


def _refused_values(parameter: Parameter) -> Iterator[str]:
    """What it must not take."""
    yield "surely no value of anything"
    if parameter.kind in {ParameterKind.NUMBER, ParameterKind.WHOLE}:
        yield from (
            str(bound + step) for bound, step in ((parameter.minimum, -1), (parameter.maximum, 1)) if bound is not None
        )


__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "SlowRecommender", "conformance_tests", "failures_of"]


RecommenderRule: TypeAlias = Callable[[Factory], None]

CHECKS: Final[tuple[Check[RecommenderRule], ...]] = make_checks(
    declares_itself,
    answers_in_shape,
    answers_what_can_be,
    changes_nothing,
    repeats_itself,
    answers_each_row_alone,
    ignores_order,
    takes_every_parameter,
    reads_what_it_declares,
    does_no_io,
    reads_no_clock,
    can_be_sent,
    is_quick,
)


def failures_of(make: Factory) -> list[Failure]:
    """Every rule that a recommender breaks; none if it conforms."""
    return collect_failures(CHECKS, lambda check: check.run(make))


def conformance_tests(make: Factory, *, examples: int = 25) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule and one for any rows that Hypothesis thinks of."""
    answers_anything: Check[RecommenderRule] = Check(
        "answers-anything", "Any rows get an answer that can be.", _anything(examples)
    )
    return parametrized_test([*CHECKS, answers_anything], lambda check: check.run(make))


def _anything(examples: int) -> Callable[[Factory], None]:
    def run(make: Factory) -> None:
        from hypothesis import HealthCheck, given, settings  # noqa: PLC0415

        from trellis.testing.usage import any_rows  # noqa: PLC0415

        recommender: Any = make()

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(any_rows(history=recommender.needs_history, runs=needs_runs(recommender)))
        def ask(rows: Any) -> None:
            must_be_possible(ask_recommender(make(), rows), rows)

        ask()

    return run
