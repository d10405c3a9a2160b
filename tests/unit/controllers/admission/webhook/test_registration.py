"""The webhook configuration: what it says, and that it comes back whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from support import virtual_time
from support.api_server.server import Document, ModelServer
from testbed.access.certificates import Authority
from trellis.base.errors import InvalidInput, Unreachable
from trellis.controllers.admission.certificates.key_pairs import split_authorities
from trellis.controllers.admission.metrics import UPKEEP_METRICS
from trellis.controllers.admission.settings import RegistrationSettings
from trellis.controllers.admission.webhook.registration import HANDOVER, INTERVAL, WebhookRegistration
from trellis.kube.transport.requests import Request
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.settings.loader import from_environment, from_flags, load_settings
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
GROUP = "/apis/autoscaling.x-k8s.io/v1alpha1"
OURS, THEIRS = (Authority.new(name).pair.certificate for name in ("ours", "theirs"))


class World:
    """A server with some of our kinds, and a replica that registers itself."""

    def __init__(self, *plurals: str, scope: ScopeSettings | None = None, **settings: Any) -> None:
        self.server = ModelServer()
        self.server.before = self._discovery
        self.plurals = plurals
        self.bundle = OURS
        self.outcomes: list[WriteOutcome] = []
        self.metrics = Metrics(UPKEEP_METRICS, about_process=False)
        self.scope = scope or ScopeSettings()
        self.settings = RegistrationSettings(**settings)
        self.registration = self.replica()

    def replica(self, bundle: Callable[[], bytes] | None = None, **settings: Any) -> WebhookRegistration:
        return WebhookRegistration(
            self.server.client,
            Writer(self.server.client, record=self.outcomes.append),
            RegistrationSettings(**settings) if settings else self.settings,
            scope=self.scope,
            bundle=bundle or (lambda: self.bundle),
            metrics=self.metrics,
        )

    def _discovery(self, request: Request) -> ScriptedResponse | None:
        if request.path != GROUP:
            return None
        if not self.plurals:
            return error_response(404, "NotFound", "no such group")
        return json_response({"kind": "APIResourceList", "resources": [{"name": name} for name in self.plurals]})

    def reconcile(self) -> None:
        virtual_time.run(self.registration.reconcile())

    @property
    def webhooks(self) -> list[Document]:
        configured: list[Document] = self.server.objects[PATH]["webhooks"]
        return configured

    @property
    def authorities(self) -> tuple[bytes, ...]:
        [bundle] = {webhook["clientConfig"]["caBundle"] for webhook in self.webhooks}
        return split_authorities(b64decode(bundle))

    @property
    def writes(self) -> int:
        return sum(outcome.applied for outcome in self.outcomes)

    def run(self, main: Callable[[], Coroutine[Any, Any, None]], *replicas: WebhookRegistration) -> None:
        async def everything() -> None:
            tasks = [asyncio.create_task(replica.run()) for replica in replicas or (self.registration,)]
            try:
                await main()
            finally:
                for task in tasks:
                    task.cancel()

        virtual_time.run(everything())


def test_the_webhook_is_registered_as_upstream_registers_it() -> None:
    world = World()
    world.reconcile()
    assert world.webhooks == [
        {
            "name": "vpa.k8s.io",
            "clientConfig": {
                "service": {"namespace": "kube-system", "name": "vpa-webhook"},
                "caBundle": b64encode(OURS).decode(),
            },
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "scope": "*",
                },
                {
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": ["autoscaling.k8s.io"],
                    "apiVersions": ["*"],
                    "resources": ["verticalpodautoscalers"],
                    "scope": "*",
                },
            ],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": "Never",
        }
    ]
    assert world.registration.find_registration_problem() is None
    assert "trellis_admission_webhook_registered 1\n" in world.metrics.format_text().decode()


def test_our_own_kinds_are_asked_about_where_they_are_served() -> None:
    world = World("hvpas", "hvpas/status", "capacitybuffers")
    world.reconcile()
    assert [webhook["name"] for webhook in world.webhooks] == ["vpa.k8s.io", "objects.autoscaling.x-k8s.io"]
    [rule] = world.webhooks[1]["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["autoscaling.x-k8s.io"], ["hvpas"])
    assert rule["operations"] == ["CREATE", "UPDATE"]
    world.plurals = ("hvpas", "buffers")
    world.reconcile()
    assert world.webhooks[1]["rules"][0]["resources"] == ["hvpas", "buffers"]


def test_a_url_is_registered_as_it_is_given() -> None:
    world = World(register_by_url=True, webhook_address="https://10.1.2.3", webhook_port="8443")
    world.reconcile()
    assert world.webhooks[0]["clientConfig"] == {
        "url": "https://10.1.2.3:8443",
        "caBundle": b64encode(OURS).decode(),
    }


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (ScopeSettings(), []),
        (
            ScopeSettings(vpa_object_namespace=("shop", "bank")),
            [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["bank", "shop"]}],
        ),
        (
            ScopeSettings(ignored_vpa_object_namespaces=("kube-system", "infra")),
            [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["infra", "kube-system"]}],
        ),
    ],
)
def test_namespaces_that_are_not_ours_are_not_asked_about(scope: ScopeSettings, expected: list[Document]) -> None:
    world = World(scope=scope)
    world.reconcile()
    assert world.webhooks[0]["namespaceSelector"].get("matchExpressions", []) == expected


def test_selectors_can_narrow_what_is_asked_about() -> None:
    world = World(
        webhook_object_selector="sized!=never,tier in (front,back)",
        webhook_namespace_selector="!legacy,team",
        webhook_reinvocation_policy="IfNeeded",
        webhook_labels="team:web, tier:front",
    )
    world.reconcile()
    webhook = world.webhooks[0]
    assert webhook["objectSelector"]["matchExpressions"] == [
        {"key": "sized", "operator": "NotIn", "values": ["never"]},
        {"key": "tier", "operator": "In", "values": ["back", "front"]},
    ]
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "legacy", "operator": "DoesNotExist"},
        {"key": "team", "operator": "Exists"},
    ]
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert world.server.objects[PATH]["metadata"]["labels"] == {"team": "web", "tier": "front"}


@pytest.mark.parametrize(
    "written", ["team:web,tier:front", "team:web, tier:front", "team : web,tier : front", '"team:web,tier:front"']
)
def test_labels_are_read_in_every_way_in_which_upstream_takes_them(written: str) -> None:
    given = load_settings(RegistrationSettings, from_flags(RegistrationSettings, {"webhook_labels": written})).settings
    world = World(webhook_labels=given.webhook_labels)
    world.reconcile()
    assert world.server.objects[PATH]["metadata"]["labels"] == {"team": "web", "tier": "front"}


def test_where_no_answer_is_a_refusal_our_own_pods_are_not_asked_about() -> None:
    """Else the first of them could never start: nobody would be there to let it."""
    world = World(webhook_failure_policy_fail=True)
    world.reconcile()
    assert world.webhooks[0]["failurePolicy"] == "Fail"
    assert world.webhooks[0]["objectSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "NotIn", "values": ["vpa-admission-controller"]}
    ]


def test_what_is_right_is_not_written_again() -> None:
    world = World("hvpas")

    async def main() -> None:
        await asyncio.sleep(600)

    world.run(main)
    assert world.writes == 1


def test_a_configuration_of_upstream_is_changed_in_place() -> None:
    world = World(webhook_labels="team:web")
    upstream = {
        "name": "vpa.k8s.io",
        "clientConfig": {"url": "https://elsewhere:8000", "caBundle": b64encode(THEIRS).decode()},
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [""]}]
        },
        "failurePolicy": "Ignore",
        "timeoutSeconds": 30,
    }
    uid = world.server.put(PATH, {"metadata": {"labels": {"by": "upstream"}}, "webhooks": [upstream]})["metadata"][
        "uid"
    ]
    world.reconcile()
    assert world.server.objects[PATH]["metadata"]["uid"] == uid
    assert world.server.objects[PATH]["metadata"]["labels"] == {"by": "upstream", "team": "web"}
    assert "url" not in world.webhooks[0]["clientConfig"]
    assert world.webhooks[0]["namespaceSelector"] == {}
    assert [request.method for request in world.server.requests if request.method not in ("GET", "PATCH")] == []


def test_authorities_of_others_are_trusted_for_some_minutes_more() -> None:
    """Upstream's last pod, or a replica to which the kubelet has not brought the new file yet, still answers."""
    world = World()
    client = {"caBundle": b64encode(THEIRS).decode()}
    world.server.put(PATH, {"webhooks": [{"name": "vpa.k8s.io", "clientConfig": client}]})

    async def main() -> None:
        await asyncio.sleep(HANDOVER - 20)
        assert list(world.authorities) == [OURS, THEIRS]
        assert world.writes == 1
        await asyncio.sleep(40)
        assert list(world.authorities) == [OURS]

    world.run(main)
    assert world.writes == 2


def test_replicas_with_different_authorities_do_not_fight_and_agree_in_the_end() -> None:
    world = World()
    bundles = {"first": OURS, "second": OURS}
    replicas = [world.replica(lambda name=name: bundles[name]) for name in bundles]  # type: ignore[misc]

    async def main() -> None:
        await asyncio.sleep(30)
        bundles["first"] = THEIRS
        replicas[0].wake()
        await asyncio.sleep(60)
        assert set(world.authorities) == {OURS, THEIRS}
        bundles["second"] = THEIRS
        replicas[1].wake()
        await asyncio.sleep(2 * HANDOVER)
        assert world.authorities == (THEIRS,)

    world.run(main, *replicas)


def test_a_new_bundle_is_registered_at_once_and_logged_in_upstreams_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()

    async def main() -> None:
        await asyncio.sleep(1)
        assert "new client CA" not in caplog.text
        world.bundle = THEIRS + OURS
        world.registration.wake()
        await asyncio.sleep(0.1)
        assert world.authorities == (THEIRS, OURS)
        assert "Successfully patched webhook with new client CA" in caplog.text
        caplog.clear()
        world.bundle = THEIRS
        world.registration.wake()
        await asyncio.sleep(2 * HANDOVER)
        assert list(world.authorities) == [THEIRS]
        assert "new client CA" not in caplog.text, "one that is taken away is no new one"

    world.run(main)


def spoil_timeout(webhook: Document) -> None:
    webhook["timeoutSeconds"] = 1


def spoil_rules(webhook: Document) -> None:
    webhook["rules"] = webhook["rules"][1:]


def spoil_conditions(webhook: Document) -> None:
    webhook["matchConditions"] = [{"name": "never", "expression": "false"}]


def spoil_bundle(webhook: Document) -> None:
    webhook["clientConfig"]["caBundle"] = "!!!"


@pytest.mark.parametrize("spoil", [spoil_timeout, spoil_rules, spoil_conditions, spoil_bundle])
def test_external_changes_are_corrected(spoil: Callable[[Document], None]) -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(1)
        good = world.webhooks
        document = {"webhooks": [dict(good[0])]}
        document["webhooks"][0]["clientConfig"] = dict(good[0]["clientConfig"])
        spoil(document["webhooks"][0])
        world.server.put(PATH, document)
        await asyncio.sleep(INTERVAL * 1.2)
        assert world.webhooks == good

    world.run(main)


def test_a_configuration_that_is_deleted_comes_back() -> None:
    world = World()

    async def main() -> None:
        await asyncio.sleep(1)
        world.server.delete(PATH)
        await asyncio.sleep(INTERVAL * 1.2)
        assert world.authorities == (OURS,)

    world.run(main)


def test_replicas_that_start_together_make_one_configuration() -> None:
    world = World()
    replicas = [world.replica() for _ in range(4)]

    async def main() -> None:
        await asyncio.sleep(1)
        assert [replica.find_registration_problem() for replica in replicas] == [None] * 4

    world.run(main, *replicas)
    assert world.writes == 1


def test_without_registration_no_state_of_it_is_exported() -> None:
    world = World(register_webhook=False)
    assert "trellis_admission_webhook_registered NaN\n" in world.metrics.format_text().decode()


def test_without_an_authority_nothing_is_registered() -> None:
    world = World()
    world.bundle = b""
    world.reconcile()
    assert PATH not in world.server.objects
    assert "CA certificate" in str(world.registration.find_registration_problem())


@pytest.mark.parametrize("fault", [error_response(403, "Forbidden", "not yours"), Unreachable("no route to host")])
def test_trouble_is_reported_and_passes(fault: ScriptedResponse) -> None:
    world = World()

    async def main() -> None:
        world.server.faults.append(fault)
        await asyncio.sleep(1)
        assert "cannot be read" in str(world.registration.find_registration_problem())
        await asyncio.sleep(INTERVAL * 1.2)
        assert world.registration.find_registration_problem() is None

    world.run(main)


def test_what_others_register_is_left_alone() -> None:
    world = World(register_webhook=False)

    async def main() -> None:
        await asyncio.sleep(60)

    world.run(main)
    assert world.server.requests == []
    assert world.registration.find_registration_problem() is None


def test_a_certificate_is_made_for_the_names_under_which_we_are_asked() -> None:
    service = RegistrationSettings(webhook_service="hook", namespace="scaling")
    assert service.hosts == ("hook.scaling.svc", "hook.scaling", "hook.scaling.svc.cluster.local")
    url = RegistrationSettings(register_by_url=True, webhook_address="https://[fd00::1]", webhook_port="8443")
    assert url.hosts[0] == "fd00::1"


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("WEBHOOK_TIMEOUT_SECONDS", "31", "at most 30"),
        ("WEBHOOK_TIMEOUT_SECONDS", "0", "at least 1"),
        ("WEBHOOK_ADDRESS", "http://10.0.0.1", "must be a URL"),
        ("WEBHOOK_ADDRESS", "10.0.0.1", "must be a URL"),
        ("WEBHOOK_ADDRESS", "https://10.0.0.1?x=y", "no user, query or fragment"),
        ("WEBHOOK_PORT", "many", "must be a URL"),
        ("WEBHOOK_LABELS", "not a label:x", "must be labels"),
        ("WEBHOOK_OBJECT_SELECTOR", "a in", "expected"),
        ("WEBHOOK_OBJECT_SELECTOR", "size>3", "must not compare"),
        ("WEBHOOK_REINVOCATION_POLICY", "Always", "Never, IfNeeded"),
        ("NAMESPACE", "Not-One", "not a valid namespace name"),
    ],
)
def test_what_cannot_be_right_is_refused_at_the_start(variable: str, value: str, rule: str) -> None:
    environment = {
        "TRELLIS_REGISTER_BY_URL": "true",
        "TRELLIS_WEBHOOK_ADDRESS": "https://10.0.0.1",
        f"TRELLIS_{variable}": value,
    }
    with pytest.raises(InvalidInput, match=rule):
        load_settings(RegistrationSettings, from_environment(RegistrationSettings, environment))


def test_the_namespace_is_that_of_upstreams_manifests() -> None:
    settings = load_settings(RegistrationSettings, from_environment(RegistrationSettings, {"NAMESPACE": "scaling"}))
    assert settings.settings.namespace == "scaling"
