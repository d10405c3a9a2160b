"""Recommenders in worker processes: every request ends by its deadline, and no process is left."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trellis.base.errors import RecommenderFailure
from trellis.base.reasons import Reason
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin
from trellis.controllers.recommender.plugins.worker import RecommenderWorker, WorkerSettings
from trellis.controllers.recommender.plugins.worker_process import build_worker_environment
from trellis.core.recommend.amounts import CPU, MIDDLE
from trellis.core.recommend.estimation import RemoteRecommender
from trellis.core.recommend.parameters import ParameterKind
from trellis.testing.estimates import select_rows
from trellis.testing.rows import NOW, UsageExample, build_rows

ROWS = build_rows([UsageExample([0.5], [1e9])] * 3)
DEADLINE = 1.0


class ObservedFailures:
    """What a worker reported, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.time = 0.0

    def observe(self, _name: str, reason: Reason) -> None:
        self.failures.append(reason.code)


@contextmanager
def working(
    value: str = "unruly_recommender:Unruly", *, given: dict[str, str] | None = None, **settings: Any
) -> Iterator[tuple[RecommenderWorker, ObservedFailures]]:
    observed = ObservedFailures()
    worker = RecommenderWorker(
        RecommenderPlugin("unruly", value, "unruly-package", "1.0"),
        WorkerSettings(**{"deadline": DEADLINE, **settings}),
        presets=given or {},
        observe=observed.observe,
        clock=lambda: observed.time,
    )
    try:
        worker.start().result()
        yield worker, observed
    finally:
        worker.close()


def target(worker: RecommenderWorker, **values: Any) -> list[float]:
    response = worker.estimate(ROWS, {"mood": "fine", "millicores": 1000.0, **values}, NOW)
    result: list[float] = response.bounds[MIDDLE, CPU].tolist()
    return result


def pid_of(worker: RecommenderWorker) -> int:
    assert worker._process is not None
    return worker._process.pid


def has_exited(pid: int) -> bool:
    """Whether a process has ended; one that was killed a moment ago may need another to end."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(process) as ended:
        return bool(select.select([ended], [], [], 5.0)[0])


def test_declaration_and_estimates_are_transferred_completely() -> None:
    with working() as (worker, observed):
        assert [parameter.name for parameter in worker.parameters] == ["mood", "millicores"]
        assert worker.parameters[0].kind is ParameterKind.CHOICE
        assert not worker.needs_history
        response = worker.estimate(select_rows(ROWS, [0, 1]), {"mood": "print", "millicores": 250.0}, NOW)
        assert response.bounds.shape == (3, 2, 2)
        assert response.bounds[:, CPU].tolist() == [[250.0, 250.0]] * 3
        assert response.explanation == {"mood": ["print", "print"]}
        assert observed.failures == []


@pytest.fixture(scope="module")
def limited() -> Iterator[tuple[RecommenderWorker, ObservedFailures]]:
    """One for all ways to fail: it goes on after each of them."""
    with working(memory=1 << 30) as result:
        yield result


@pytest.mark.parametrize(
    ("mood", "reason", "message"),
    [
        ("exit", "RecommenderCrashed", "recommender unruly crashed: its process ended with status 7"),
        ("segfault", "RecommenderCrashed", "recommender unruly crashed: its process was killed by SIGSEGV"),
        ("garbage", "RecommenderAnswerUnreadable", "recommender unruly sent an invalid answer"),
        ("greedy", "RecommenderOutOfMemory", "recommender unruly ran out of memory: its limit is 1073741824 bytes"),
        ("raise", "RecommenderRaised", 'recommender unruly failed: ZeroDivisionError: "by design"'),
        ("shape", "RecommenderRaised", "recommender unruly returned bounds of shape (3,)"),
    ],
)
def test_each_kind_of_failure_is_reported_and_later_requests_succeed(
    limited: tuple[RecommenderWorker, ObservedFailures], mood: str, reason: str, message: str
) -> None:
    worker, observed = limited
    observed.failures.clear()
    with pytest.raises(RecommenderFailure) as failed:
        target(worker, mood=mood)
    assert message in str(failed.value)
    worker.start().result()
    assert target(worker) == [1000.0] * 3
    assert observed.failures == [reason]


def test_a_hanging_worker_is_killed_with_its_children_and_delays_others_for_one_deadline() -> None:
    with working() as (worker, observed):
        child = pid_of(worker)
        hanging, queued = (
            worker.start_estimate(ROWS, {"mood": mood, "millicores": 1.0}, NOW) for mood in ("fork", "fine")
        )
        with pytest.raises(RecommenderFailure, match="recommender unruly did not answer within 1 s and was killed"):
            hanging()
        with pytest.raises(RecommenderFailure, match="used its 1 s for VPAs with other parameters"):
            queued()
        assert has_exited(child)
        result = subprocess.run(["pgrep", "-s", str(child)], capture_output=True, text=True, check=False).stdout.split()
        assert all(has_exited(int(pid)) for pid in result)
        assert observed.failures == ["RecommenderTimedOut"]


def test_a_failed_request_is_retried_with_exponential_backoff() -> None:
    with working() as (worker, observed):
        for at, asked in ((0.0, True), (0.9, False), (1.0, True), (2.9, False), (3.0, True)):
            observed.time, before = at, len(observed.failures)
            with pytest.raises(RecommenderFailure, match="ended with status 7"):
                target(worker, mood="exit")
            assert (len(observed.failures) > before) == asked, at
            worker.start().result()
        assert target(worker) == [1000.0] * 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "no_such_package:X",
            "no_such_package:X cannot be loaded: ModuleNotFoundError: \"No module named 'no_such_package'\"; "
            "reinstall its package, or correct its entry point",
        ),
        ("unruly_recommender:Nobody", "unruly_recommender:Nobody cannot be loaded: AttributeError"),
        ("unruly_recommender:MOODS", "cannot be loaded: TypeError: \"'tuple' object is not callable\""),
        (
            "unruly_recommender:Homeless",
            "unruly_recommender:Homeless returned Homeless, which is not a recommender: it has no attribute "
            "`needs_history` of type bool; it has no method `estimate`; it has no attribute `parameters`",
        ),
    ],
)
def test_an_invalid_recommender_is_reported_with_its_package_and_problem(value: str, message: str) -> None:
    with working(value) as (worker, observed):
        assert worker.declared is None
        assert worker.unavailable_reason.startswith("recommender unruly of package unruly-package 1.0 cannot be used: ")
        assert message in worker.unavailable_reason
        assert observed.failures == ["RecommenderNotLoaded"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no key')", "RuntimeError: \"no key\"; `python -c 'import unlucky'` shows where"),
        ("raise SystemExit", "SystemExit; `python -c 'import unlucky'` shows where"),
        ("import scipi.stats", "ModuleNotFoundError: \"No module named 'scipi'\"; install scipi beside Trellis"),
        ("import unlucky.more", "reinstall its package, or correct its entry point"),
    ],
)
def test_an_import_error_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    (tmp_path / "unlucky.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with working("unlucky:X") as (worker, _):
        assert worker.problem.startswith("unlucky:X cannot be loaded: ")
        assert worker.problem.endswith(message)


def test_a_recommender_that_never_loads_is_killed() -> None:
    with working("unruly_recommender:impatient", start_seconds=0.5) as (worker, observed):
        assert worker.problem == "it did not start in time"
        assert observed.failures == ["RecommenderTimedOut"]


def test_presets_are_checked_against_the_declaration() -> None:
    with working(given={"millicores": "250"}) as (worker, _):
        assert {parameter.name: parameter.default for parameter in worker.parameters} == {
            "mood": "fine",
            "millicores": 250.0,
        }
    with working(given={"millicores": "-1"}) as (worker, _):
        assert worker.declared is None
        assert worker.problem == 'flag --set: "millicores=-1": must be at least 0'


def test_closing_ends_the_process_in_any_state() -> None:
    with working() as (worker, _):
        child = pid_of(worker)
        pending = worker.start_estimate(ROWS, {"mood": "spin", "millicores": 1.0}, NOW)
        worker.close()
        with pytest.raises(RecommenderFailure):
            pending()
        assert has_exited(child)
        with pytest.raises(RecommenderFailure, match="is stopping"):
            target(worker)


SPINNING = """
import sys, time
sys.path[:] = {path!r}
from trellis.testing.rows import NOW, UsageExample, build_rows
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin
from trellis.controllers.recommender.plugins.worker import RecommenderWorker, WorkerSettings
plugin = RecommenderPlugin("unruly", "unruly_recommender:Unruly", "unruly-package", "1.0")
worker = RecommenderWorker(plugin, WorkerSettings(60.0), presets={{}}, observe=print)
worker.start().result()
worker.start_estimate(build_rows([UsageExample()]), {{"mood": "spin", "millicores": 1.0}}, NOW)
print(worker._process.pid, flush=True)
time.sleep(60)
"""


def test_kill_9_of_the_parent_ends_a_child_that_spins() -> None:
    parent = subprocess.Popen([sys.executable, "-c", SPINNING.format(path=sys.path)], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        ending = select.poll()
        ending.register(os.pidfd_open(child), select.POLLIN)
        assert not ending.poll(0)
        parent.kill()
    assert ending.poll(20_000)


def test_a_pass_starts_the_estimates_of_a_worker_before_it_waits_for_them() -> None:
    with working() as (worker, _):
        assert isinstance(worker, RemoteRecommender)


def test_a_worker_gets_neither_tokens_nor_the_address_of_the_cluster() -> None:
    ours = {
        "PATH": "/bin",
        "PYTHONPATH": "/plugins",
        "LC_ALL": "C.UTF-8",
        "KUBECONFIG": "/home/ann/.kube/config",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "TRELLIS_PROMETHEUS_BEARER_TOKEN": "secret",
    }
    assert build_worker_environment(ours).keys() & ours.keys() == {"PATH", "PYTHONPATH", "LC_ALL"}
