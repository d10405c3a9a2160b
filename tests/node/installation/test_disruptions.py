"""What users notice while replicas are killed, and while the chart is upgraded and rolled back: nothing but a moment.

With `DISRUPTIONS_RECORD_FILE` the figures are written there; the documentation quotes them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from support.cluster.admission import CONFIGURATION
from support.install.clusters import connect_helm
from support.install.helm import CHART, Helm
from support.install.releases import RELEASES, find_chart
from support.node.chart import (
    NAMESPACE,
    RELEASE,
    REPOSITORY,
    kill,
    list_replicas,
    provide_images,
    quickstart,
    uninstall,
)
from support.node.service_levels import ServiceLevels, build_pod
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.programs.versions import HELM_4
from testbed.waiting import until

# A pass every 30 s: another replica leads within 14 s of a kill, and then runs a pass at once.
PASS_SECONDS = 30
VALUES = (f"image.repository={REPOSITORY}", f"configuration.recommender.recommenderInterval={PASS_SECONDS}s")
WAIT = ("--wait", "--timeout", "3m")
DUE_SECONDS = 2
# What a creation takes without a webhook, on a busy machine.
CREATION_SECONDS = 1.0


@pytest.fixture
def helm(cluster: Cluster, node: RealNode, tmp_path: Path) -> Iterator[Helm]:
    """A Helm that has installed the earlier chart."""
    provide_images(node)
    helm = connect_helm(HELM_4, tmp_path, cluster)
    values = [part for value in VALUES for part in ("--set", value)]
    helm.run("install", *RELEASE, find_chart(RELEASES[-1]), "--create-namespace", *values, *WAIT).check()
    yield helm
    uninstall(cluster, helm)


@pytest.mark.timeout(900)
def test_no_creation_is_delayed_and_no_recommendation_grows_old(cluster: Cluster, node: RealNode, helm: Helm) -> None:
    most_seconds = until("the webhook", lambda: read_timeout(cluster))
    with quickstart(cluster) as deployment:
        levels = ServiceLevels(cluster, "default", build_pod(deployment))

        def change(phase: str, *command: str | Path) -> None:
            levels.phase = phase
            began = time.time()
            helm.run(*command, *WAIT).check()
            until("a pass afterwards", lambda: levels.has_pass_since(began))

        levels.phase = "quiet"
        until("sizes", levels.is_sized)
        with levels.measure():
            until("a pass", lambda: levels.has_pass_since(time.time() - PASS_SECONDS))
            for number, pod in enumerate(list(list_replicas(cluster))):
                # The worst moment: the next pass is due.
                until("an old pass", lambda: time.time() - levels.last_pass > PASS_SECONDS - DUE_SECONDS)
                levels.phase = f"kill -9 {pod['metadata']['labels']['app']}, replica {number % 2 + 1}"
                began = time.time()
                kill(cluster, node, pod)
                until("a pass afterwards", partial(levels.has_pass_since, began))
            change(
                "upgrade", "upgrade", *RELEASE, CHART, "--reset-then-reuse-values", "--set", "podLabels.upgraded=yes"
            )
            change("downgrade", "rollback", "trellis", "1", "--namespace", NAMESPACE)
    figures = levels.describe()
    sys.stdout.write(f"{json.dumps(figures, indent=2)}\n")
    assert [it.refusal for it in levels.creations if it.refusal] == []
    assert max(it.seconds for it in levels.creations) < most_seconds + CREATION_SECONDS
    assert max(it.seconds for it in levels.ages) < 2 * PASS_SECONDS
    # The webhook of the other replica, or of the new pods, answers all the time.
    assert [it for it in levels.creations if not (it.is_sized or it.phase.startswith("kill"))] == []
    record(figures)


def read_timeout(cluster: Cluster) -> int:
    """How long the API server waits for the webhook; 0 before there is one."""
    webhooks = (cluster.api.find(CONFIGURATION) or {}).get("webhooks") or []
    return max((webhook["timeoutSeconds"] for webhook in webhooks), default=0)


def record(figures: dict[str, dict[str, float]]) -> None:
    """Write what was measured to the file that the environment names."""
    file = os.environ.get("DISRUPTIONS_RECORD_FILE")
    if file:
        document = {"date": datetime.now(UTC).date().isoformat(), "passSeconds": PASS_SECONDS, "phases": figures}
        Path(file).write_text(json.dumps(document, indent=2) + "\n")
