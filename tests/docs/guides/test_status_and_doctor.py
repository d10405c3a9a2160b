"""The screens in the guide to status, doctor and top are what the commands print for such clusters."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec.structs import replace

from support.installations.facts import NOW, broken, cluster, installation, lease, page, pod, vpa, webhook, workload
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.survey.model import ResourceAmount
from trellis.core.resize.freeze import Freeze, FreezeScope
from trellis.diagnosis.checks.freezes import FreezeFacts
from trellis.diagnosis.checks.namespace import NamespaceFacts
from trellis.diagnosis.checks.objects import BUFFER, HVPA_KIND, VPA
from trellis.diagnosis.checks.usage_sources import MetricsApiFacts
from trellis.diagnosis.checks.webhook import WebhookFacts
from trellis.diagnosis.doctor import DoctorFacts, diagnose
from trellis.diagnosis.installation import ContainerRun, Installation
from trellis.diagnosis.status import build_status
from trellis.diagnosis.text.doctor_text import format_diagnosis
from trellis.diagnosis.text.status_text import format_status
from trellis.diagnosis.text.waste_text import format_ranking
from trellis.diagnosis.waste import WasteTotals, WorkloadRanking, WorkloadWaste
from trellis.runtime.manager.settings import COMPONENTS

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "status-and-doctor.md").read_text()
CONTROLLERS = tuple(component for component in COMPONENTS if component != "admission")
MIB = 2.0**20


def screens() -> dict[str, list[str]]:
    """What the guide shows, by what it shows."""
    return {"healthy": healthy(), "trouble": trouble(), "doctor": before_an_installation(), "top": fleet()}


def healthy() -> list[str]:
    """All controllers in one process with two replicas, and two of the webhook."""
    passes = {component: page(component).passes[component] for component in CONTROLLERS}
    leader = replace(pod("controllers", page=page("recommender", passes=passes)), name="trellis-5d4f8b7c9-x2x9z")
    run = workload("controllers", name="trellis", components=CONTROLLERS, wanted=2, ready=2, pods=(leader,))
    leases = tuple(lease(component, holder=f"{leader.name}_6f1e") for component in CONTROLLERS)
    found = Installation((run, workload("admission", wanted=2, ready=2)), leases)
    objects = {VPA: tuple(vpa(f"web-{number}") for number in range(12)), HVPA_KIND: (), BUFFER: ()}
    facts = cluster(installation=found, objects=objects, metrics_api=MetricsApiFacts(nodes=3))
    return format_status(build_status(facts))


def trouble() -> list[str]:
    """An image that does not exist, and a freeze."""
    container = ContainerRun(
        "updater",
        "registry.example/trellis:0.1.O",
        is_ready=False,
        waiting="ImagePullBackOff",
        waiting_message="not found",
    )
    found = installation("recommender", "admission")
    found = replace(found, workloads=(*found.workloads, broken("updater", container)))
    frozen = FreezeFacts(cluster=Freeze("alice", FreezeScope.CLUSTER, "incident 17"), since=NOW - 7200.0)
    return format_status(build_status(cluster(installation=found, freezes=frozen)))


def before_an_installation() -> list[str]:
    """A cluster without a metrics API."""
    empty = cluster(
        installation=Installation(), webhook=WebhookFacts(), objects={}, metrics_api=MetricsApiFacts(is_available=None)
    )
    return format_diagnosis(
        diagnose(DoctorFacts(cluster=empty, namespace=NamespaceFacts("trellis-system", exists=False)))
    )


def row(name: str, pods: int, cpu: tuple[float, ...], memory: tuple[float, ...], **more: object) -> WorkloadWaste:
    used, requested, recommended = (
        ResourceAmount(first, second * MIB) for first, second in zip(cpu, memory, strict=True)
    )
    usual = WorkloadWaste(
        namespace="shop",
        kind="Deployment",
        name=name,
        pods=pods,
        usage=used,
        requests=requested,
        recommended=recommended,
        waste=0.0,
        waste_weight=0.0,
        cost=0.0,
        limit_share=math.nan,
    )
    return replace(usual, **more)


def fleet() -> list[str]:
    """Three workloads, one of them at risk."""
    nan = math.nan
    rows = (
        row("api", 2, (410, 400, nan), (486, 512, nan), limit_share=0.95, risk="MemoryAtRisk", risk_rank=2),
        row("checkout", 4, (900, 600, 960), (1100, 2048, 1800), limit_share=0.31, risk="UnderRequested", risk_rank=1),
        row("web", 6, (740, 6000, 1500), (3100, 12288, 4608), waste=126.79),
    )
    totals = WasteTotals(
        pods=12,
        usage=ResourceAmount(2050, 4686 * MIB),
        requests=ResourceAmount(7000, 14848 * MIB),
        waste=126.79,
        cost=207.0,
    )
    return format_ranking(WorkloadRanking(rows=rows, totals=totals, prices=EXAMPLE_PRICES))


def test_the_guide_shows_what_is_printed() -> None:
    for name, lines in screens().items():
        text = "".join(f"{line}\n" for line in lines)
        assert f"```text\n{text}```\n" in GUIDE, f"{name}:\n{text}"


def test_a_healthy_cluster_with_all_components_fits_on_a_screen() -> None:
    lines = healthy()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_every_check_of_the_diagnosis_is_in_the_guide() -> None:
    found = diagnose(DoctorFacts(cluster=cluster(webhook=webhook()), namespace=NamespaceFacts("kube-system")))
    table = GUIDE.split("| check | what it finds |")[1]
    for result in found.results:
        assert result.name.partition(" kube")[0] in table, result.name
