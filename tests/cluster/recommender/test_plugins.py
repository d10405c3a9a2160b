"""Installed recommenders on a real control plane: a wheel beside Trellis, and one that misbehaves.

The first is that of `examples/recommender-plugin`, installed as its users would. None of them costs the others more
than a deadline, and none is left behind when its parent is gone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

import unruly_recommender
from support.cluster.recommenders import (
    EVERY_SECOND,
    cpu_at,
    find_true_condition,
    history,
    hourly_history,
    memory_at,
    true_conditions,
    wait_for_passes,
)
from support.cluster.vpas import (
    CORES,
    USAGE,
    USAGE_SECONDS,
    amounts,
    get_container_recommendations,
    get_target,
    get_vpa_status,
    metric_value,
    until_value,
    vpa,
    vpa_path,
)
from support.cluster.vpas import MEMORY as MEMORY_USED
from support.wheels import build_wheel, install, write_project
from testbed.access.shipped_accounts import ROOT
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until
from testbed.workloads import deployment
from trellis.core.usage.histograms import bins
from unruly_recommender import MOOD_FILE

Start = Callable[..., Controller]

EXAMPLE = ROOT / "examples" / "recommender-plugin"
CPU, MEMORY = {20: 10_000}, {30: 10_000}
FAILURES = "trellis_recommender_worker_failures_total"
# Enough for a worker to start on a busy machine, and little enough to wait for.
DEADLINE = "--recommender-deadline=4s"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two wheels installed in it."""
    work = tmp_path_factory.mktemp("wheels")
    module = Path(unruly_recommender.__file__)
    unruly = write_project(work / "unruly", "unruly-package", module, {"unruly": "unruly_recommender:Unruly"})
    install(build_wheel(EXAMPLE, work), work / "site", build_wheel(unruly, work))
    return work / "site"


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is started has the packages beside Trellis."""
    monkeypatch.setenv("PYTHONPATH", str(site))


def create(
    cluster: Cluster, namespace: str, name: str, recommender: str, past: Json | None = None, **parameters: str
) -> None:
    """A Deployment, its VPA and its past, which is an hour of history by default."""
    cluster.api.create(deployment(name), namespace)
    cluster.api.create(past or history(name, CPU, MEMORY), namespace)
    entry = {"name": recommender, "parameters": parameters}
    cluster.api.create(vpa(name, recommenders=[entry]), namespace)


def give(cluster: Cluster, namespace: str, name: str, **parameters: str) -> None:
    """Other parameters for the recommender that a VPA names."""
    [entry] = cluster.api.get(vpa_path(namespace, name))["spec"]["recommenders"]
    chosen = {"name": entry["name"], "parameters": parameters}
    cluster.api.patch(vpa_path(namespace, name), {"spec": {"recommenders": [chosen]}})


def why(controller: Controller, *path: str) -> tuple[int, Json]:
    """What the process answers when it is asked about recommendations."""
    status, text = controller.get("/".join(["/recommendations", *path]))
    return status, json.loads(text)


def before_a_peak() -> list[float]:
    """Fifteen days of a fifth of a core, but for two cores in this hour and in the next of each earlier day."""
    used = np.full(15 * 24, 0.2)
    for day in range(1, 15):
        used[-1 - 24 * day : 1 - 24 * day] = 2.0
    return used.tolist()


def message(cluster: Cluster, namespace: str, name: str, type_: str) -> str | None:
    condition = find_true_condition(cluster, namespace, name, type_)
    return str(condition["message"]) if condition else None


def peak(margin: float) -> tuple[int, int]:
    """What the example recommends for the highest bucket of the history."""
    return int(bins.CPU_BINS.starts[21] * 1000 * (1 + margin)), int(bins.MEMORY_BINS.starts[31] * (1 + margin))


def two_workers_of(controller: Controller) -> list[int] | None:
    workers = workers_of(controller)
    return workers if len(workers) == 2 else None


def spinning(workers: list[int] | None) -> list[int] | None:
    """The workers, once one of them has worked for longer than it takes to start."""
    for pid in workers or ():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[11]) > 2 * os.sysconf("SC_CLK_TCK"):
            return workers
    return None


def workers_of(controller: Controller) -> list[int]:
    """The worker processes that a recommender has started."""
    workers = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
        except OSError:
            continue
        is_child = int(status.rpartition(")")[2].split()[1]) == controller.process.pid
        if is_child and b"worker_main" in command:
            workers.append(int(entry.name))
    return workers


def are_gone(pids: list[int]) -> bool:
    return not any(b"worker_main" in _command(pid) for pid in pids)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.req("CR-01", "CR-07", "CR-08", "CR-12", "CR-18", "CR-29")
@pytest.mark.usefixtures("installed")
def test_a_crash_or_hang_of_an_installed_recommender_affects_no_other_vpa(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    create(cluster, namespace, "by-default", "default")
    create(cluster, namespace, "by-wheel", "peak-of-week", margin="0.5", weeks="2")
    create(cluster, namespace, "bad", "peak-of-week", margin="lots")
    create(cluster, namespace, "by-season", "seasonal")
    create(cluster, namespace, "calm", "unruly", millicores="250")
    names = "--recommender-name=default,seasonal,peak-of-week,unruly"
    controller = recommender(namespace, EVERY_SECOND, names, "--set=peak-of-week.margin=0.2", DEADLINE)

    until("default's", lambda: get_target(cluster, namespace, "by-default") == (cpu_at(20), memory_at(30)))
    until("the wheel's", lambda: get_target(cluster, namespace, "by-wheel") == peak(0.5))
    until("a season's", lambda: get_target(cluster, namespace, "by-season"))
    until("the unruly one's", lambda: get_target(cluster, namespace, "calm") == (250, 1_000_000_000))
    result = until("the bad parameter", lambda: message(cluster, namespace, "bad", "ConfigUnsupported"))
    assert result == 'spec.recommenders[0].parameters[margin]: Invalid value: "lots": must be a number'
    assert not get_container_recommendations(cluster, namespace, "bad")

    create(cluster, namespace, "crash", "unruly", mood="segfault")
    create(cluster, namespace, "hang", "unruly", mood="spin")
    for name, result in (
        ("crash", "recommender unruly crashed: its process was killed by SIGSEGV"),
        ("hang", "recommender unruly did not answer within 4 s and was killed"),
    ):
        until(result, lambda at=name, why=result: message(cluster, namespace, at, "RecommenderFailed") == why)  # type: ignore[misc]
    for reason in ("RecommenderTimedOut", "RecommenderCrashed"):
        until(
            f"{reason} to be counted",
            lambda reason=reason: metric_value(controller, FAILURES, recommender="unruly", reason=reason) >= 1,  # type: ignore[misc]
        )

    # Everybody else goes on: what is changed now is served, by all three.
    for name, parameters in (
        ("by-default", {"recommendation-margin-fraction": "0"}),
        ("by-wheel", {}),
        ("calm", {"millicores": "300"}),
        ("bad", {"margin": "0"}),
    ):
        give(cluster, namespace, name, **parameters)
    bare = (cpu_at(20, margin=0), memory_at(30, margin=0))
    until("default to go on", lambda: get_target(cluster, namespace, "by-default") == bare)
    until(
        "the default of the process",
        lambda: get_target(cluster, namespace, "by-wheel") == peak(0.2),
    )
    until("the mended one", lambda: get_target(cluster, namespace, "bad") == peak(0.0))
    until("the unruly one to go on", lambda: get_target(cluster, namespace, "calm") == (300, 1_000_000_000))
    for name in ("by-default", "by-wheel"):
        until(
            f"{name} to be well",
            lambda name=name: "RecommenderFailed" not in true_conditions(cluster, namespace, name),  # type: ignore[misc]
        )

    workers = until("two workers", lambda: two_workers_of(controller))
    controller.process.stop()
    until("the workers to be gone", lambda: are_gone(workers))


@pytest.fixture
def three(
    cluster: Cluster, namespace: str, recommender: Start, installed: None
) -> tuple[Controller, Callable[[str], tuple[int, int]]]:
    """Three VPAs, three recommenders and one process; and the target of a VPA, by its name.

    All have the same past but that of the wheel: one sees the peak that comes, the other what was used at most times.
    """
    past = partial(hourly_history, namespace, cpu=before_a_peak(), memory=2.0**30)
    create(cluster, namespace, "by-default", "default", past("by-default"))
    season = {"recommendation-margin-fraction": "0.5", "memory-margin-fraction": "0"}
    create(cluster, namespace, "by-season", "seasonal", past("by-season"), **season)
    create(cluster, namespace, "by-wheel", "unruly", mood="told", millicores="250")
    shadows = {"trellis.x-k8s.io/shadow-recommenders": "seasonal,unruly"}
    cluster.api.patch(vpa_path(namespace, "by-default"), {"metadata": {"annotations": shadows}})
    names = "--recommender-name=default,seasonal,unruly"
    controller = recommender(namespace, EVERY_SECOND, names, DEADLINE)

    def target(name: str) -> tuple[int, int]:
        return get_target(cluster, namespace, name) or (0, 0)

    until("default's", lambda: 200 < target("by-default")[0] < 300)
    until("a season's", lambda: target("by-season")[0] == pytest.approx(1.5 * 2000, rel=0.05))
    assert target("by-season")[1] == pytest.approx(2**30, rel=0.05)
    until("the wheel's", lambda: target("by-wheel") == (250, 1_000_000_000))
    return controller, target


@pytest.mark.req("CR-01", "CR-02", "CR-07", "CR-18", "CR-29")
def test_a_bad_parameter_of_one_of_three_vpas_affects_no_other(
    cluster: Cluster, namespace: str, three: tuple[Controller, Callable[[str], tuple[int, int]]]
) -> None:
    controller, target = three
    give(cluster, namespace, "by-season", **{"recommendation-margin-fraction": "0", "memory-margin-fraction": "1"})
    until("other parameters", lambda: target("by-season")[0] == pytest.approx(2000, rel=0.05))
    assert target("by-season")[1] == pytest.approx(2 * 2**30, rel=0.05)
    give(cluster, namespace, "by-season", horizon="never")
    result = until("a bad parameter", lambda: message(cluster, namespace, "by-season", "ConfigUnsupported"))
    assert 'spec.recommenders[0].parameters[horizon]: Invalid value: "never"' in result
    for name in ("by-default", "by-wheel"):
        assert "ConfigUnsupported" not in true_conditions(cluster, namespace, name)
    preserved = target("by-season")
    assert preserved[0] == pytest.approx(2000, rel=0.05)
    give(cluster, namespace, "by-wheel", mood="told", millicores="350")
    until("the wheel to go on", lambda: target("by-wheel") == (350, 1_000_000_000))

    wait_for_passes(controller)
    status, answer = why(controller, namespace, "by-season")
    assert (status, answer["recommender"], answer["given"]) == (200, "seasonal", {"horizon": "never"})
    until(
        "the same conditions in both",
        lambda: (
            why(controller, namespace, "by-season")[1]["conditions"]
            == get_vpa_status(cluster, namespace, "by-season")["conditions"]
        ),
    )
    [app] = answer["containers"]
    assert (app["reason"], app["found"]) == ("RecommendationKept", {})
    assert amounts(app["published"]["target"]) == preserved
    give(cluster, namespace, "by-season")
    until("the mended one", lambda: target("by-season")[0] == pytest.approx(1.15 * 2000, rel=0.05))


def test_recommendations_are_explained_over_http(
    namespace: str, three: tuple[Controller, Callable[[str], tuple[int, int]]]
) -> None:
    controller, target = three

    def answered_by_all() -> Json | None:
        """What is said of the container, once all shadows have answered: one may have taken too long to start."""
        [app] = why(controller, namespace, "by-default")[1]["containers"]
        return app if [shadow["failure"] for shadow in app["shadows"].values()] == ["", ""] else None

    wait_for_passes(controller)
    app = until("all shadows", answered_by_all)
    assert (why(controller, namespace, "by-default")[0], app["recommender"]) == (200, "default")
    assert amounts(app["published"]["target"]) == target("by-default")
    seasonal, unruly = app["shadows"]["seasonal"], app["shadows"]["unruly"]
    assert amounts(seasonal["found"]["target"])[0] == pytest.approx(1.15 * 2000, rel=0.05)
    assert seasonal["explanation"]["days"] == pytest.approx(15, abs=1)
    assert (unruly["explanation"], unruly["failure"]) == ({"mood": "fine"}, "")
    [app] = why(controller, namespace, "by-wheel")[1]["containers"]
    assert (app["recommender"], app["explanation"]) == ("unruly", {"mood": "told"})
    status, result = why(controller, namespace, "nobody")
    assert (status, result["serves"]) == (404, ["default", "seasonal", "unruly"])
    status, result = why(controller)
    assert [item["name"] for item in result["items"]] == ["by-default", "by-season", "by-wheel"]
    assert why(controller, namespace)[1]["items"] == result["items"]


@pytest.mark.req("CR-18", "CR-29")
def test_an_installed_recommender_that_crashes_and_hangs_recovers_without_affecting_others(
    cluster: Cluster, namespace: str, three: tuple[Controller, Callable[[str], tuple[int, int]]], site: Path
) -> None:
    controller, target = three

    def failure() -> str | None:
        return message(cluster, namespace, "by-wheel", "RecommenderFailed")

    so_far = len(controller.read_logs())
    (site / MOOD_FILE).write_text("segfault")
    until("a crash", lambda: failure() == "recommender unruly crashed: its process was killed by SIGSEGV")
    (site / MOOD_FILE).write_text("spin")
    hung = "recommender unruly did not answer within 4 s and was killed"
    until("a hang", lambda: failure() == hung)
    assert target("by-wheel") == (250, 1_000_000_000)
    until("why", lambda: why(controller, namespace, "by-wheel")[1].get("failure") == hung)
    give(cluster, namespace, "by-season")
    until("a season's, meanwhile", lambda: target("by-season")[0] == pytest.approx(1.15 * 2000, rel=0.05))
    for name in ("by-default", "by-season"):
        assert true_conditions(cluster, namespace, name) <= {"RecommendationProvided", "LowConfidence"}
    pauses = [
        float(item)
        for item in re.findall(r'a recommender failed.* pause="?([\d.]+) s', controller.read_logs()[so_far:])
    ]

    # Nobody edits the VPA, and nobody starts the process again.
    (site / MOOD_FILE).unlink()
    until("it to recover", lambda: not failure())
    until("that to be said", lambda: "failure" not in why(controller, namespace, "by-wheel")[1])
    give(cluster, namespace, "by-wheel", mood="told", millicores="350")
    until("it to go on", lambda: target("by-wheel") == (350, 1_000_000_000))
    assert pauses == sorted(pauses)
    assert pauses[0] == 4.0
    assert pauses[-1] >= 8.0


@pytest.mark.usefixtures("installed")
def test_shadows_change_no_status_and_a_spinning_worker_ends_with_its_killed_parent(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    create(cluster, namespace, "web", "default")
    shadows = {"trellis.x-k8s.io/shadow-recommenders": "peak-of-week,unruly,nobody"}
    cluster.api.patch(vpa_path(namespace, "web"), {"metadata": {"annotations": shadows}})
    names = "--recommender-name=default,peak-of-week,unruly"
    controller = recommender(namespace, EVERY_SECOND, names, "--set=unruly.mood=segfault", "--recommender-deadline=20s")
    until("default's", lambda: get_target(cluster, namespace, "web") == (cpu_at(20), memory_at(30)))
    difference = "trellis_recommender_shadow_relative_difference_count"
    until("the shadow", lambda: metric_value(controller, difference, recommender="peak-of-week", resource="cpu") > 0)
    failures = "trellis_recommender_shadow_failures_total"
    until("the one that crashes", lambda: metric_value(controller, failures, recommender="unruly") > 0)
    until_value(controller, "trellis_recommender_shadow_unhosted_vpas", 1, recommender="nobody")
    until("a word of it", lambda: "a shadow recommender is not served by this process" in controller.read_logs())
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
def test_a_script_that_writes_statuses_works_beside_the_recommender(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    for name, chosen in (("ours", "default"), ("theirs", "simple")):
        cluster.api.create(deployment(name, annotations=USAGE), namespace)
        cluster.api.create(vpa(name, recommender=chosen), namespace)
    controller = recommender(namespace, EVERY_SECOND)
    until("ours", lambda: get_target(cluster, namespace, "ours"), USAGE_SECONDS)
    assert not get_vpa_status(cluster, namespace, "theirs")
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    script = [sys.executable, str(ROOT / "examples" / "recommenders" / "simple.py")]

    def written() -> bool:
        """It says what is measured at this moment, which on a busy machine may be wide of the mark."""
        subprocess.run(script, env=environment, check=True)
        cpu, memory = get_target(cluster, namespace, "theirs") or (0, 0)
        return memory == 1.5 * MEMORY_USED and cpu == pytest.approx(1.5 * 1000 * CORES, rel=0.1)

    until("theirs", written)
    assert true_conditions(cluster, namespace, "theirs") == {"RecommendationProvided"}
    before = cluster.api.get(vpa_path(namespace, "theirs"))
    wait_for_passes(controller)
    assert cluster.api.get(vpa_path(namespace, "theirs")) == before
