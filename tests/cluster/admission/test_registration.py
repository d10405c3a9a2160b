"""Certificates, the webhook configuration and the status Lease with a real API server, under the account we ship.

Wherever it matters the failure policy is `Fail`: a pod that could be created is one about which we were asked, over a
connection that the API server trusts.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.local_server import serving
from testbed.access import shipped_accounts
from testbed.access.certificates import Authority
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import BARE, ControlPlane, find_audit_directory
from testbed.errors import Refused
from testbed.scratch import scratch
from testbed.waiting import until
from testbed.workloads import pod
from trellis.controllers.admission.certificates.authority import PROPAGATION_SECONDS, CertificateLifetimes
from trellis.controllers.admission.certificates.keeper import CertificateKeeper
from trellis.controllers.admission.certificates.key_pairs import split_authorities
from trellis.controllers.admission.certificates.secret import CertificateSecret
from trellis.controllers.admission.metrics import UPKEEP_METRICS
from trellis.controllers.admission.settings import CertificateSettings, RegistrationSettings, StatusLeaseSettings
from trellis.controllers.admission.status_lease import StatusLease
from trellis.controllers.admission.webhook.registration import WebhookRegistration
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.telemetry.metrics import Metrics

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
SECRET = "/api/v1/namespaces/kube-system/secrets/trellis-admission-certificates"  # noqa: S105 - a path
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"
SHOP = "shop"
DAY = 86400.0
TEN_YEARS = CertificateLifetimes(authority=3650 * DAY, serving=90 * DAY)
NAMES = count()

# The stand-in server is aiohttp's on asyncio, which at its end leaves connections in the middle of TLS's goodbye.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server of these tests' own: a webhook is everybody's business."""
    with scratch() as directory, _start_server(directory) as plane:
        plane.cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        plane.cluster.api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SHOP}}, SHOP
        )
        yield plane.cluster


def _start_server(directory: Path) -> ControlPlane:
    definitions = sorted((shipped_accounts.ROOT / "deploy" / "crds").glob("*.yaml"))
    return ControlPlane(directory, BARE, definitions=definitions, audit=find_audit_directory())


@pytest.fixture(autouse=True)
def _nothing_is_left(cluster: Cluster) -> Iterator[None]:
    yield
    for path in (CONFIGURATION, SECRET, LEASE):
        if cluster.api.find(path):
            cluster.api.delete(path)


class Webhook:
    """One replica: certificates and registration as they are, and instead of answers a list of questions."""

    def __init__(self, client: Client, settings: RegistrationSettings) -> None:
        self.reviews: list[Json] = []
        self.outcomes: list[WriteOutcome] = []
        self.ahead = 0.0
        self.settings = settings
        writer = Writer(client, record=self.outcomes.append)
        metrics = Metrics(UPKEEP_METRICS, about_process=False)
        now = lambda: time.time() + self.ahead  # noqa: E731
        secret = CertificateSecret(
            client,
            writer,
            name="trellis-admission-certificates",
            namespace="kube-system",
            hosts=("127.0.0.1",),
            lifetimes=TEN_YEARS,
            now=now,
        )
        self.keeper = CertificateKeeper(secret, CertificateSettings(), metrics, now=now)
        self.client, self.writer, self.metrics = client, writer, metrics

    def register_at(self, url: str) -> WebhookRegistration:
        settings = RegistrationSettings(
            register_by_url=True,
            webhook_address=url,
            webhook_timeout_seconds=30,
            webhook_failure_policy_fail=self.settings.webhook_failure_policy_fail,
            webhook_labels=self.settings.webhook_labels,
        )
        scope = ScopeSettings(vpa_object_namespace=(SHOP,))
        bundle = self.keeper.ca_bundle
        return WebhookRegistration(self.client, self.writer, settings, scope=scope, bundle=bundle, metrics=self.metrics)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())
        self.reviews.append(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    @property
    def asked_about(self) -> set[str]:
        return {review["resource"]["resource"] for review in self.reviews}

    def check_rights(self) -> None:
        assert [
            outcome.message for outcome in self.outcomes if outcome.result not in (Result.APPLIED, Result.CONFLICT)
        ] == []


@asynccontextmanager
async def replica(cluster: Cluster, **settings: Any) -> AsyncIterator[Webhook]:
    kubeconfig = await asyncio.to_thread(shipped_accounts.create_account, cluster, "admission")
    client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=kubeconfig)))
    try:
        yield Webhook(client, RegistrationSettings(**settings))
    finally:
        await client.close()


async def eventually(what: str, ask: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(until, what, ask)


def create_pod(cluster: Cluster) -> Json:
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    return cluster.api.create(pod(f"web-{next(NAMES)}", container), SHOP)


async def until_asked(cluster: Cluster, webhook: Webhook) -> None:
    """The API server hears of a new configuration a moment later."""

    def asked() -> bool:
        try:
            create_pod(cluster)
        except Refused:  # by what the test before left, if that was the last word on pods
            return False
        return bool(webhook.reviews)

    await eventually("the API server to ask us", asked)
    webhook.reviews.clear()


def run(main: Awaitable[None]) -> None:
    async def everything() -> None:
        await main

    asyncio.run(everything())


def test_the_api_server_asks_us_over_a_connection_that_it_trusts(cluster: Cluster) -> None:
    async def main() -> None:
        async with (
            replica(cluster, webhook_failure_policy_fail=True, webhook_labels="team:web") as webhook,
            serving(webhook.answer, webhook.keeper.context) as url,
        ):
            registration = webhook.register_at(url)
            await webhook.keeper.check()
            await registration.reconcile()
            assert registration.find_registration_problem() is None
            await until_asked(cluster, webhook)
            vpa = await asyncio.to_thread(cluster.api.create, vertical("web"), SHOP)
            assert vpa["metadata"]["name"] == "web"
            await asyncio.to_thread(cluster.api.create, buffer("spare"), SHOP)
            assert {"verticalpodautoscalers", "buffers"} <= webhook.asked_about
            # What the API server stored is what we wanted, defaults included: nothing is written again.
            writes = len(webhook.outcomes)
            await registration.reconcile()
            assert len(webhook.outcomes) == writes
            webhook.check_rights()
        # Gone without a word: the configuration stays, and with this policy pods wait for the next replica.
        with pytest.raises(Refused, match=r"failed calling webhook \"vpa\.k8s\.io\""):
            create_pod(cluster)
        # Our own can start all the same.
        own = pod("vpa-admission-controller", {"name": "app", "image": "app"})
        assert cluster.api.create(own, SHOP)["metadata"]["name"] == "vpa-admission-controller"

    run(main())
    stored = cluster.api.get(CONFIGURATION)
    assert stored["metadata"]["labels"] == {"team": "web"}
    assert [webhook["name"] for webhook in stored["webhooks"]] == ["vpa.k8s.io", "objects.autoscaling.x-k8s.io"]


def test_when_the_webhook_is_down_pods_start_unchanged(cluster: Cluster) -> None:
    async def main() -> None:
        async with replica(cluster) as webhook:
            async with serving(webhook.answer, webhook.keeper.context) as url:
                await webhook.keeper.check()
                await webhook.register_at(url).reconcile()
                await until_asked(cluster, webhook)
            created = await asyncio.to_thread(create_pod, cluster)
            assert webhook.reviews == []
            assert created["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}}

    run(main())


def test_an_authority_is_followed_by_the_next_without_a_moment_of_distrust(cluster: Cluster) -> None:
    async def main() -> None:
        async with (
            replica(cluster, webhook_failure_policy_fail=True) as webhook,
            serving(webhook.answer, webhook.keeper.context) as url,
        ):
            registration = webhook.register_at(url)
            # Made so long ago that the authority is due for a successor now.
            webhook.ahead = -2440 * DAY
            await webhook.keeper.check()
            old = webhook.keeper.ca_bundle()
            webhook.ahead = 0
            await webhook.keeper.check()
            assert split_authorities(webhook.keeper.ca_bundle())[1:] == (old,)
            await registration.reconcile()
            await until_asked(cluster, webhook)
            webhook.ahead = PROPAGATION_SECONDS
            await webhook.keeper.check()
            for _ in range(5):
                await asyncio.to_thread(create_pod, cluster)
            assert len(webhook.reviews) == 5
            webhook.check_rights()

    run(main())
    stored = cluster.api.get(SECRET)
    assert len(split_authorities(b64decode(stored["data"]["ca.crt"]))) == 2
    assert stored["type"] == "kubernetes.io/tls"


def test_no_pod_fails_while_the_certificate_is_replaced_again_and_again(cluster: Cluster) -> None:
    async def main() -> None:
        async with (
            replica(cluster, webhook_failure_policy_fail=True) as webhook,
            serving(webhook.answer, webhook.keeper.context) as url,
        ):
            await webhook.keeper.check()
            await webhook.register_at(url).reconcile()
            await until_asked(cluster, webhook)
            creating = [asyncio.create_task(asyncio.to_thread(create_pod, cluster)) for _ in range(50)]
            for _ in range(5):
                spoilt = {"data": {"tls.crt": b64encode(b"nothing").decode()}}
                await asyncio.to_thread(cluster.api.patch, SECRET, spoilt)
                await webhook.keeper.check()
            await asyncio.gather(*creating)
            assert len(webhook.reviews) == 50
            loads = 'trellis_admission_certificate_loads_total{result="loaded"} 6'
            assert loads in webhook.metrics.format_text().decode()

    run(main())


def test_replicas_agree_through_the_secret(cluster: Cluster) -> None:
    async def main() -> None:
        async with replica(cluster) as first, replica(cluster) as second, replica(cluster) as third:
            replicas = (first, second, third)
            await asyncio.gather(*(replica.keeper.check() for replica in replicas))
            bundles = {replica.keeper.ca_bundle() for replica in replicas}
            assert len(bundles) == 1
            assert b64decode(cluster.api.get(SECRET)["data"]["ca.crt"]) in bundles
            registrations = [replica.register_at("https://127.0.0.1:1") for replica in replicas]
            await asyncio.gather(*(registration.reconcile() for registration in registrations))
            assert [registration.find_registration_problem() for registration in registrations] == [None] * 3
            await asyncio.to_thread(cluster.api.delete, SECRET)
            await second.keeper.check()
            assert b64decode(cluster.api.get(SECRET)["data"]["ca.crt"]) in bundles
            for webhook in replicas:
                webhook.check_rights()

    run(main())


def test_a_configuration_of_upstream_is_taken_over_and_what_is_spoilt_put_right(cluster: Cluster) -> None:
    theirs = Authority.new("upstream").pair.certificate
    made = cluster.api.create(upstream_configuration(theirs))

    async def main() -> None:
        async with replica(cluster) as webhook:
            await webhook.keeper.check()
            registration = webhook.register_at("https://127.0.0.1:1")
            await registration.reconcile()
            good = cluster.api.get(CONFIGURATION)
            assert good["metadata"]["uid"] == made["metadata"]["uid"]
            client = good["webhooks"][0]["clientConfig"]
            assert "service" not in client
            assert split_authorities(b64decode(client["caBundle"])) == (webhook.keeper.ca_bundle(), theirs)
            condition = [{"name": "never", "expression": "false"}]
            webhooks = [webhook | {"matchConditions": condition, "timeoutSeconds": 1} for webhook in good["webhooks"]]
            cluster.api.patch(CONFIGURATION, {"webhooks": webhooks})
            await registration.reconcile()
            assert cluster.api.get(CONFIGURATION)["webhooks"] == good["webhooks"]
            cluster.api.delete(CONFIGURATION)
            await registration.reconcile()
            assert cluster.api.find(CONFIGURATION)
            webhook.check_rights()

    run(main())


def test_the_status_lease_is_what_upstreams_updater_looks_for(cluster: Cluster) -> None:
    async def main() -> None:
        async with replica(cluster) as webhook:
            presence = StatusLease(
                webhook.client,
                webhook.writer,
                StatusLeaseSettings(),
                namespace="kube-system",
                identity="web-0",
                find_absence_reason=lambda: None,
                now=lambda: datetime.now(UTC),
            )
            await presence.renew()
            first = cluster.api.get(LEASE)["spec"]
            await presence.renew()
            second = cluster.api.get(LEASE)["spec"]
            assert (first["holderIdentity"], first["leaseDurationSeconds"]) == ("web-0", 10)
            assert first["renewTime"] < second["renewTime"]
            assert [outcome.result for outcome in webhook.outcomes] == [Result.GONE, Result.APPLIED, Result.APPLIED]

    run(main())


def vertical(name: str) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    about = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name}}
    return about | {"spec": {"targetRef": target}}


def buffer(name: str) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    about = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Buffer", "metadata": {"name": name}}
    return about | {"spec": {"targetRef": target, "capacity": {"replicas": {"exactly": 1}}}}


def upstream_configuration(authority: bytes) -> Json:
    """What upstream writes, its selector that means nothing included."""
    service = {"namespace": "kube-system", "name": "vpa-webhook"}
    nothing = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [""]}
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        "failurePolicy": "Ignore",
        "clientConfig": {"service": service, "caBundle": b64encode(authority).decode()},
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "namespaceSelector": {"matchExpressions": [nothing]},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "vpa-webhook-config"},
        "webhooks": [webhook],
    }
