"""Recommenders of others on a real control plane: a wheel beside Trellis, one that misbehaves, and one of its own.

The first is that of `examples/recommender-plugin`, installed as its users would. None of them costs the others more
than a deadline, and none is left behind when its parent is gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import unruly_recommender
from cluster_vpas import USAGE, USAGE_SECONDS, containers_of, status_of, target_of, value, vpa, vpa_path
from recommender_cases import EVERY_SECOND, condition_of, cpu_at, history, memory_at, true_conditions, wait_for_passes
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.shipped import ROOT
from testbed.waiting import until
from testbed.workloads import deployment
from trellis.core.usage import layout
from wheels import build_wheel, install, write_project

Start = Callable[..., Controller]

EXAMPLE = ROOT / "examples" / "recommender-plugin"
CPU, MEMORY = {20: 10_000}, {30: 10_000}
FAILURES = "trellis_recommender_worker_failures_total"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two wheels installed in it."""
    work = tmp_path_factory.mktemp("wheels")
    module = Path(unruly_recommender.__file__)
    unruly = write_project(work / "unruly", "unruly-package", module, {"unruly": "unruly_recommender:Unruly"})
    for project in (EXAMPLE, unruly):
        install(build_wheel(project, work), work / "site")
    return work / "site"


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is started has the packages beside Trellis."""
    monkeypatch.setenv("PYTHONPATH", str(site))


def create(cluster: Cluster, namespace: str, name: str, recommender: str, **parameters: str) -> None:
    """A Deployment, its VPA and an hour of history."""
    cluster.api.create(deployment(name), namespace)
    cluster.api.create(history(name, CPU, MEMORY), namespace)
    entry = {"name": recommender, "parameters": parameters}
    cluster.api.create(vpa(name, recommenders=[entry]), namespace)


def message(cluster: Cluster, namespace: str, name: str, type_: str) -> str | None:
    condition = condition_of(cluster, namespace, name, type_)
    return str(condition["message"]) if condition else None


def peak(margin: float) -> tuple[int, int]:
    """What the example recommends for the highest bucket of the history."""
    return int(layout.CPU.starts[21] * 1000 * (1 + margin)), int(layout.MEMORY.starts[31] * (1 + margin))


def two_workers_of(controller: Controller) -> list[int] | None:
    found = workers_of(controller)
    return found if len(found) == 2 else None


def spinning(workers: list[int] | None) -> list[int] | None:
    """The workers, once one of them has worked for longer than it takes to start."""
    for pid in workers or ():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if int(fields[11]) > 2 * os.sysconf("SC_CLK_TCK"):
            return workers
    return None


def workers_of(controller: Controller) -> list[int]:
    """The worker processes that a recommender has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
        except OSError:
            continue
        is_child = int(status.rpartition(")")[2].split()[1]) == controller.process.pid
        if is_child and b"worker_main" in command:
            found.append(int(entry.name))
    return found


def are_gone(pids: list[int]) -> bool:
    return not any(b"worker_main" in _command(pid) for pid in pids)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.req("CR-01", "CR-07", "CR-08", "CR-12", "CR-18", "CR-29")
@pytest.mark.usefixtures("installed")
def test_one_process_serves_default_and_a_wheel_and_nobody_suffers_for_a_crash_or_a_hang(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    create(cluster, namespace, "by-default", "default")
    create(cluster, namespace, "by-wheel", "peak-of-week", margin="0.5", weeks="2")
    create(cluster, namespace, "bad", "peak-of-week", margin="lots")
    create(cluster, namespace, "by-season", "seasonal")
    create(cluster, namespace, "calm", "unruly", millicores="250")
    names = "--recommender-name=default,seasonal,peak-of-week,unruly"
    controller = recommender(
        namespace, EVERY_SECOND, names, "--set=peak-of-week.margin=0.2", "--recommender-deadline=2s"
    )

    until("default's", lambda: target_of(cluster, namespace, "by-default") == (cpu_at(20), memory_at(30)))
    until("the wheel's", lambda: target_of(cluster, namespace, "by-wheel") == peak(0.5))
    until("a season's", lambda: target_of(cluster, namespace, "by-season"))
    until("the unruly one's", lambda: target_of(cluster, namespace, "calm") == (250, 1_000_000_000))
    told = until("the bad parameter", lambda: message(cluster, namespace, "bad", "ConfigUnsupported"))
    assert told == 'spec.recommenders[0].parameters[margin]: Invalid value: "lots": must be a number'
    assert not containers_of(cluster, namespace, "bad")

    create(cluster, namespace, "crash", "unruly", mood="segfault")
    create(cluster, namespace, "hang", "unruly", mood="spin")
    for name, told in (
        ("crash", "recommender unruly crashed: its process was ended by SIGSEGV"),
        ("hang", "recommender unruly did not answer within 2 s and was killed"),
    ):
        until(told, lambda at=name, why=told: message(cluster, namespace, at, "RecommenderFailed") == why, 60.0)  # type: ignore[misc]
    assert value(controller, FAILURES, recommender="unruly", reason="RecommenderTimedOut") >= 1
    assert value(controller, FAILURES, recommender="unruly", reason="RecommenderCrashed") >= 1

    # Everybody else goes on: what is changed now is served, by all three.
    for name, parameters in (
        ("by-default", {"recommendation-margin-fraction": "0"}),
        ("by-wheel", {}),
        ("calm", {"millicores": "300"}),
        ("bad", {"margin": "0"}),
    ):
        spec = cluster.api.get(vpa_path(namespace, name))["spec"]
        [entry] = spec["recommenders"]
        cluster.api.patch(
            vpa_path(namespace, name), {"spec": {"recommenders": [{"name": entry["name"], "parameters": parameters}]}}
        )
    bare = (cpu_at(20, margin=0), memory_at(30, margin=0))
    until("default to go on", lambda: target_of(cluster, namespace, "by-default") == bare)
    until(
        "the default of the process",
        lambda: target_of(cluster, namespace, "by-wheel") == peak(0.2),
    )
    until("the mended one", lambda: target_of(cluster, namespace, "bad") == peak(0.0))
    until("the unruly one to go on", lambda: target_of(cluster, namespace, "calm") == (300, 1_000_000_000), 60.0)
    assert "RecommenderFailed" not in true_conditions(cluster, namespace, "by-default")
    assert "RecommenderFailed" not in true_conditions(cluster, namespace, "by-wheel")

    workers = until("two workers", lambda: two_workers_of(controller))
    controller.process.stop()
    assert are_gone(workers)


@pytest.mark.usefixtures("installed")
def test_shadows_change_nothing_and_a_worker_that_spins_does_not_outlive_its_killed_parent(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    create(cluster, namespace, "web", "default")
    shadows = {"trellis.x-k8s.io/shadow-recommenders": "peak-of-week,unruly,nobody"}
    cluster.api.patch(vpa_path(namespace, "web"), {"metadata": {"annotations": shadows}})
    names = "--recommender-name=default,peak-of-week,unruly"
    controller = recommender(namespace, EVERY_SECOND, names, "--set=unruly.mood=segfault", "--recommender-deadline=20s")
    until("default's", lambda: target_of(cluster, namespace, "web") == (cpu_at(20), memory_at(30)))
    difference = "trellis_recommender_shadow_relative_difference_count"
    until("the shadow", lambda: value(controller, difference, recommender="peak-of-week", resource="cpu") > 0)
    assert value(controller, "trellis_recommender_shadow_failures_total", recommender="unruly") > 0
    assert value(controller, "trellis_recommender_shadow_unhosted_vpas", recommender="nobody") == 1
    assert "a shadow recommender does not run here" in controller.logs()
    assert true_conditions(cluster, namespace, "web") <= {"RecommendationProvided", "LowConfidence"}

    create(cluster, namespace, "hang", "unruly", mood="spin")
    workers = until("two workers, one of which spins", lambda: spinning(two_workers_of(controller)))
    controller.process.kill()
    until("the workers to be gone", lambda: are_gone(workers))


def test_the_package_of_the_example_passes_its_own_tests_as_a_wheel(site: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-W", _SLOW, "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


# A machine that is busy says nothing about who is slow.
_SLOW = "ignore::trellis.testing.recommenders.SlowRecommender"


def test_the_manifests_of_the_example_are_accepted(cluster: Cluster, namespace: str) -> None:
    for path in sorted((EXAMPLE / "deploy").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            where = document["metadata"].get("namespace", namespace)
            assert cluster.api.apply(document, where, dry_run=True)["metadata"]["name"] == document["metadata"]["name"]


@pytest.mark.req("CR-14", "CR-17")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="the script calls kubectl")
def test_a_script_that_writes_statuses_is_a_recommender_beside_ours(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    for name, chosen in (("ours", "default"), ("theirs", "simple")):
        cluster.api.create(deployment(name, annotations=USAGE), namespace)
        cluster.api.create(vpa(name, recommender=chosen), namespace)
    controller = recommender(namespace, EVERY_SECOND)
    until("ours", lambda: target_of(cluster, namespace, "ours"), USAGE_SECONDS)
    assert not status_of(cluster, namespace, "theirs")
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run([sys.executable, str(ROOT / "examples" / "recommenders" / "simple.py")], env=environment, check=True)
    cpu, memory = target_of(cluster, namespace, "theirs") or (0, 0)
    assert memory == 1.5 * 300 * 2**20
    assert cpu == pytest.approx(1.5 * 103, rel=0.1)
    assert true_conditions(cluster, namespace, "theirs") == {"RecommendationProvided"}
    before = cluster.api.get(vpa_path(namespace, "theirs"))
    wait_for_passes(controller)
    assert cluster.api.get(vpa_path(namespace, "theirs")) == before
