"""A real run of all components, scraped by a real Prometheus: dashboards have data, no alert is about to fire.

The same run sends its traces to a collector.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from support.cluster.admission import wait_for_webhook_calls
from support.cluster.buffers import buffer, find_buffer_condition
from support.cluster.hvpas import hvpa
from support.cluster.vpas import USAGE, vpa
from support.otlp_collector import CollectedSpan, Collector, collecting
from support.worlds.providers.kwok_nodes import group
from testbed.components import ADDRESS
from testbed.control_plane import ControlPlane
from testbed.controllers import Controller, run_controller
from testbed.errors import TimedOut
from testbed.keeper import list_definitions
from testbed.processes import reserve_ports
from testbed.prometheus import Prometheus, scraping
from testbed.scratch import scratch
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.install.monitoring.dashboards.grafana import DASHBOARDS
from trellis.install.monitoring.dashboards.panel import Panel, Query
from trellis.install.monitoring.rules import ALERTS, alert_rules

SHOP: Final = "shop"
# What Grafana puts in for its variables. The run is short, and scraped every second.
VARIABLES: Final = {"$namespace": ".*", "$job": ".*", "$__rate_interval": "20s"}

# Panels without data in a healthy run, and why. All queries of all other panels return some.
WITHOUT_DATA: Final = {
    "Alerts": "no alert fires or is pending",
    "Buffers that are not provisioned": "the Buffer is provisioned",
    "Time since fully provisioned": "the Buffer is provisioned",
    "Problems": "the node group is valid",
    "Calls that failed at the API server": "the API server reaches the webhook",
}


class Run(msgspec.Struct, frozen=True):
    """The control plane, `trellis run`, the Prometheus that scrapes both, and the collector of traces."""

    plane: ControlPlane
    trellis: Controller
    prometheus: Prometheus
    collector: Collector

    def find_problems(self) -> list[str]:
        """The alerts that fire or are pending."""
        return sorted(f"{alert['state']}: {alert['labels']}" for alert in self.prometheus.list_alerts())


def create_objects(plane: ControlPlane) -> None:
    """A workload for each component."""
    api = plane.cluster.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    account = f"/api/v1/namespaces/{SHOP}/serviceaccounts/default"
    until("the ServiceAccount default", lambda: api.find(account))
    groups = yaml.safe_dump_all([group("small", bootTime="1s", minSize=1, resources={"cpu": "4", "memory": "8Gi"})])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "groups"}, "data": {"groups.yaml": groups}}
    api.create(config, SHOP)
    for name in ("web", "shop"):
        # Requests far above usage, so that the updater changes pods.
        api.create(deployment(name, container(cpu="500m", memory="1Gi"), replicas=2, annotations=USAGE), SHOP)
    api.create(vpa("web", updatePolicy={"updateMode": "InPlaceOrRecreate"}), SHOP)
    api.create(hvpa("shop", vpa={"deploy": True}), SHOP)
    api.create(buffer("spare", target="web"), SHOP)
    for name in ("web", "shop"):
        plane.cluster.wait_for_ready_pods(SHOP, name, 2)


def flags(collector: Collector) -> list[str]:
    """Short intervals, and a webhook that is registered by its URL."""
    [port] = reserve_ports(1)
    return [
        f"--tracing-endpoint={collector.url}",
        "--recommender.recommender-interval=2s",
        "--updater.updater-interval=2s",
        "--hvpa.hvpa-interval=2s",
        "--buffers.buffer-interval=2s",
        "--nodes.scan-interval=2s",
        f"--nodes.kwok-node-groups={SHOP}/groups",
        f"--admission.port={port}",
        "--admission.register-by-url",
        f"--admission.webhook-address=https://{ADDRESS}",
        f"--admission.webhook-port={port}",
    ]


def scrape_jobs(plane: ControlPlane, trellis: Controller) -> list[dict[str, Any]]:
    cluster = plane.cluster
    tls = {name: str(cluster.kubeconfig.with_name(file)) for name, file in CREDENTIALS.items()}
    targets = {"targets": [trellis.url.removeprefix("http://")], "labels": {"namespace": "kube-system"}}
    return [
        {"job_name": "trellis", "static_configs": [targets]},
        {
            "job_name": "kube-apiserver",
            "scheme": "https",
            "scrape_interval": "5s",
            "scrape_timeout": "5s",
            "tls_config": tls,
            "static_configs": [{"targets": [cluster.url.removeprefix("https://")]}],
            # The API server has tens of thousands of series.
            "metric_relabel_configs": [
                {"source_labels": ["__name__"], "regex": "apiserver_admission_webhook_.*", "action": "keep"}
            ],
        },
    ]


CREDENTIALS: Final = {"ca_file": "ca.crt", "cert_file": "admin.crt", "key_file": "admin.key"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All components at work, for long enough that each has done its part."""
    files = tmp_path_factory.mktemp("monitoring")
    rules = files / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": list(alert_rules().values())}))
    log = files / "trellis.log"
    with ExitStack() as stack:
        directory = stack.enter_context(scratch())
        plane = stack.enter_context(ControlPlane(directory, definitions=list_definitions()))
        create_objects(plane)
        command = [str(Path(sys.executable).with_name("trellis")), "run"]
        collector = stack.enter_context(collecting())
        trellis = stack.enter_context(run_controller(command, plane.cluster.kubeconfig, log, flags(collector)))
        prometheus = stack.enter_context(scraping(files, scrape_jobs(plane, trellis), [rules]))
        wait_for_webhook_calls(plane.cluster, SHOP)
        until("a provisioned Buffer", lambda: is_provisioned(plane))
        until("a change of a pod", lambda: prometheus.query("vpa_updater_in_place_updated_pods_total > 0"))
        yield Run(plane, trellis, prometheus, collector)
    sys.stdout.write(f"{log.name}:\n{log.read_text(errors='replace')}\n")


def is_provisioned(plane: ControlPlane) -> bool:
    condition = find_buffer_condition(plane.cluster, SHOP, "spare", "Provisioned")
    return condition is not None and condition[0] == "True"


def list_queries() -> list[tuple[str, Panel, Query]]:
    return [
        (dashboard.name, panel, query)
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        for panel in row.panels
        for query in panel.queries
    ]


def with_values(expression: str, values: Mapping[str, str] = VARIABLES) -> str:
    for variable, value in values.items():
        expression = expression.replace(variable, value)
    return expression


def wait_for_none(what: str, find: Callable[[], list[str]]) -> None:
    """Wait until nothing is found; what is found in the end fails the test."""
    with suppress(TimedOut):
        until(f"no {what}", lambda: not find())
    assert find() == []


def test_every_panel_has_data_or_a_reason_not_to(run: Run) -> None:
    def find_wrong() -> list[str]:
        return [
            f"{dashboard}, {panel.title}: {query.filtered}"
            for dashboard, panel, query in list_queries()
            if bool(run.prometheus.query(with_values(query.filtered))) is (panel.title in WITHOUT_DATA)
        ]

    wait_for_none("panel without data", find_wrong)


def test_no_alert_fires_or_is_pending(run: Run) -> None:
    wait_for_none("pending alert", run.find_problems)


def test_every_component_sends_traces_of_its_work(run: Run) -> None:
    passes = [f"{name} pass" for name in ("recommender", "updater", "hvpa", "buffers", "nodes")]
    names = {*passes, "hvpa reconcile", "buffers reconcile", "admission review"}

    def find_completed(name: str) -> CollectedSpan | None:
        done = ("completed", "applied")
        return next((span for span in run.collector.named(name) if span.attributes["trellis.outcome"] in done), None)

    spans = until("completed spans of all", lambda: _all_or_none([find_completed(name) for name in sorted(names)]))
    steps = {span.name: {child.name for child in run.collector.children(span)} for span in spans}
    assert {"LoadVPAs", "LoadMetrics", "UpdateVPAs"} <= steps["recommender pass"]
    assert {"ListPods", "FilterPods", "EvictPods"} <= steps["updater pass"]
    assert steps["nodes pass"] == {"provider", "plan", "execute"}
    assert {"view", "plan"} <= steps["hvpa reconcile"]
    assert {"view", "plan"} <= steps["buffers reconcile"]
    written = [span for span in run.collector.named("recommender pass") if "trellis.writes.applied" in span.attributes]
    assert written
    assert not [span.name for span in run.collector.spans if span.is_error]


def _all_or_none(spans: list[CollectedSpan | None]) -> list[CollectedSpan] | None:
    found = [span for span in spans if span is not None]
    return found if len(found) == len(spans) else None


def test_a_killed_process_shows_as_down_and_its_webhook_as_unreachable(run: Run) -> None:
    """The last test: it ends the run."""
    run.trellis.process.kill()
    api = run.plane.cluster.api
    alerts = {alert.name: alert for alert in ALERTS}
    down, unreachable = alerts["TrellisComponentDown"], alerts["TrellisWebhookUnreachable"]
    until("six components down", lambda: len(run.prometheus.query(down.expression)) == 6)
    api.create(deployment("late", replicas=2), SHOP)
    run.plane.cluster.wait_for_ready_pods(SHOP, "late", 2)
    failed = until("failed calls", lambda: run.prometheus.query("apiserver_admission_webhook_fail_open_count > 0"))
    assert {series["metric"]["name"] for series in failed} == {"vpa.k8s.io"}
    # The counter is new: a second failure shows as a rise.
    api.patch(f"/apis/apps/v1/namespaces/{SHOP}/deployments/late", {"spec": {"replicas": 4}})
    until("an unreachable webhook", lambda: run.prometheus.query(unreachable.expression))
