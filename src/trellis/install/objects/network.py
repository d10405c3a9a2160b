"""The Service and the webhook configuration of the admission controller, and NetworkPolicies."""

from __future__ import annotations

from typing import Any, Final

from trellis.install.objects.conditions import (
    ADVISES,
    CONTROLLERS,
    IS_SINGLE,
    NODE_PROVIDER_SERVER,
    PROCESSES,
    Process,
    find_process,
    runs,
)
from trellis.install.objects.metadata import build_metadata, build_selector
from trellis.install.objects.workloads import WEBHOOK_PORT
from trellis.install.permissions import ADVISOR
from trellis.install.tree.nodes import (
    ITEM,
    Choice,
    Commented,
    Expression,
    ForEach,
    Tree,
    Value,
    When,
    all_of,
    extend,
)
from trellis.runtime.manager.settings import ADMISSION

WEBHOOK_CONFIGURATION: Final = "vpa-webhook-config"

_DNS_PORT: Final = 53

_REGISTERS: Final = all_of(runs(ADMISSION), Value("admission.registerWebhook"))


def build_webhook() -> list[Tree]:
    """The Service that the API server calls, and the configuration by which it does.

    The webhook fills the configuration in. It is installed empty so that it belongs to the installation: Helm and
    kubectl leave what they did not write as it is, and delete it before the Deployment.
    """
    app = Choice(IS_SINGLE, CONTROLLERS.name, find_process(ADMISSION).name)
    labels = {"app.kubernetes.io/component": ADMISSION}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata("", labels=labels) | {"name": Value("admission.serviceName")},
        "spec": {
            "selector": {"app": app},
            # By number: pods of upstream's webhook, which have no name for it, answer until these are ready.
            "ports": [{"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT, "protocol": "TCP"}],
        },
    }
    configuration = _build_configuration()
    comment = "The admission controller fills in the webhooks, with the CA of its certificate."
    return [
        When(runs(ADMISSION), service),
        When(_REGISTERS, Commented(comment, configuration)),
    ]


def build_removal_hook() -> list[Tree]:
    """A hook of Helm's that removes the webhooks before anything else.

    Helm 4 deletes webhook configurations first, Helm 3 last. A hook need not be a Job: before Helm creates this one, it
    deletes the object of the same name, which is the configuration with the webhooks in it.
    """
    configuration = _build_configuration()
    hook = {"helm.sh/hook": "pre-delete", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
    comment = "Deletes the webhook configuration before everything else, for Helm 3."
    return [
        When(
            _REGISTERS,
            Commented(comment, configuration | {"metadata": configuration["metadata"] | {"annotations": hook}}),
        )
    ]


def _build_configuration() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": build_metadata(
            WEBHOOK_CONFIGURATION, labels={"app.kubernetes.io/component": ADMISSION}, cluster=True
        ),
    }


def build_network_policies() -> list[Tree]:
    """What each process may be called by, and may call."""
    return [
        When(all_of(Value("networkPolicies.enabled"), process.installed), _build_policy(process))
        for process in PROCESSES
    ] + [When(all_of(Value("networkPolicies.enabled"), ADVISES), _build_policy_of_advisor())]


def _build_policy_of_advisor() -> Tree:
    """A report calls, and nothing calls it."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(ADVISOR.account),
        "spec": {
            "podSelector": {"matchLabels": {"app": ADVISOR.account}},
            "policyTypes": ["Ingress", "Egress"],
            "egress": extend(_build_egress(), Value("networkPolicies.extraEgress")),
        },
    }


def _build_policy(process: Process) -> Tree:
    ingress: list[Tree] = [
        Commented(
            "Metrics and probes.",
            {
                "from": When(Value("networkPolicies.metricsFrom"), Value("networkPolicies.metricsFrom")),
                "ports": [_port("prometheus")],
            },
        )
    ]
    # The API server calls from an address of a node, which no selector matches.
    webhook = Commented("Reviews. The API server has no label to select it by.", {"ports": [_port("webhook")]})
    condition: Expression | None = None
    if process is CONTROLLERS:
        condition = all_of(IS_SINGLE, runs(ADMISSION))
    if process.component == ADMISSION:
        ingress.append(webhook)
    elif condition is not None:
        ingress.append(When(condition, webhook))
    elif process is NODE_PROVIDER_SERVER:
        ingress.append(Commented("Clients, which need a certificate.", {"ports": [_port("grpc")]}))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(process.name),
        "spec": {
            "podSelector": {"matchLabels": build_selector(process)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": extend(_build_egress(), Value("networkPolicies.extraEgress")),
        },
    }


def _build_egress() -> list[Tree]:
    return [
        Commented("DNS.", {"ports": [_port(_DNS_PORT, "UDP"), _port(_DNS_PORT)]}),
        Commented("The API server.", {"ports": [ForEach(Value("networkPolicies.apiServerPorts"), _port(ITEM))]}),
        When(
            Value("networkPolicies.prometheusPorts"),
            Commented("Prometheus.", {"ports": [ForEach(Value("networkPolicies.prometheusPorts"), _port(ITEM))]}),
        ),
    ]


def _port(port: Any, protocol: str = "TCP") -> dict[str, Any]:
    return {"protocol": protocol, "port": port}
