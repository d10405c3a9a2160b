"""Rules over several values. Python checks them for `trellis install`, and a chart fails by the same conditions."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.install.permissions import COMPONENT_RIGHTS
from trellis.install.tree.nodes import (
    AllOf,
    Contains,
    Equals,
    Expression,
    Not,
    OneOf,
    Value,
    all_of,
)
from trellis.install.values.declarations import ADVISOR, FULL, READ_ONLY, SINGLE
from trellis.runtime.manager.settings import NODES

# Labels by which Services, budgets and spreading find pods, or that say what an object belongs to.
FIXED_LABELS: Final = (
    "app",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
)
LABEL_PATHS: Final = ("labels", "podLabels")
# Settings that other values decide about: as flags they would win over the file anyway.
RESERVED_SETTINGS: Final = {
    "apiVersion": "it is added",
    "kind": "it is added",
    "components": "use the value components",
    "readOnly": "use the preset read-only",
    "leaderElect": "it is on",
    "leaderElectResourceNamespace": "it is the namespace of the installation",
    "vpaObjectNamespace": "use the value watchedNamespaces",
    "address": "the probes have its port",
}


class ValuesRule(msgspec.Struct, frozen=True):
    """A combination of values that is refused: the path to blame, when, and what to do."""

    path: str
    broken: Expression
    message: str


def _list_namespaced_rules() -> tuple[ValuesRule, ...]:
    """Components that serve the whole cluster cannot be installed for one namespace."""
    rules = []
    for rights in COMPONENT_RIGHTS:
        if not rights.cluster_wide:
            continue
        of_preset = all_of(Not(Value("components")), OneOf(Value("preset"), (FULL, READ_ONLY)))
        if rights.component == NODES:
            of_preset = all_of(of_preset, Value("nodes.cloudProviders"))
        for path, broken in (
            ("components", Contains(Value("components"), rights.component)),
            ("watchedNamespaces", of_preset),
        ):
            message = (
                f"the component {rights.component} cannot be installed for some namespaces only. {rights.cluster_wide} "
                "Name the other components in the value components"
            )
            rules.append(ValuesRule(path, all_of(Value("watchedNamespaces"), broken), message))
    return tuple(rules)


_SERVES: Final = Value("nodeProviderServer.enabled")

RULES: Final = (
    *_list_namespaced_rules(),
    ValuesRule(
        "components",
        AllOf((Value("components"), Equals(Value("preset"), ADVISOR))),
        "the preset advisor runs no component; choose another preset",
    ),
    ValuesRule(
        "components",
        AllOf((Contains(Value("components"), "admission"), Equals(Value("preset"), READ_ONLY))),
        "the preset read-only has no admission controller, which changes pods; leave admission out",
    ),
    ValuesRule(
        "processes",
        AllOf((Equals(Value("processes"), SINGLE), Value("admission.failurePolicyFail"))),
        "with admission.failurePolicyFail the admission controller needs a Deployment of its own: use shared or "
        "separate",
    ),
    ValuesRule(
        "admission.certificateSecret",
        AllOf((Equals(Value("admission.certificates"), "files"), Not(Value("admission.certificateSecret")))),
        "name the Secret with the files, or use admission.certificates: secret",
    ),
    ValuesRule(
        "nodes.cloudProviders",
        AllOf((Contains(Value("components"), "nodes"), Not(Value("nodes.cloudProviders")))),
        "name the providers of nodes, such as [clusterapi]; [kwok] simulates nodes",
    ),
    ValuesRule(
        "nodeProviderServer.cloudProviders",
        AllOf((_SERVES, Not(Value("nodeProviderServer.cloudProviders")))),
        "name the providers whose node groups are offered, such as [clusterapi]",
    ),
    ValuesRule(
        "nodeProviderServer.cloudProviders",
        Contains(Value("nodeProviderServer.cloudProviders"), "externalgrpc"),
        "externalgrpc is the client of this server; name other providers",
    ),
    ValuesRule(
        "nodeProviderServer.certificateSecret",
        AllOf((_SERVES, Not(Value("nodeProviderServer.certificateSecret")))),
        "name the Secret with tls.crt, tls.key and ca.crt: without certificates any client could order and delete "
        "machines",
    ),
    ValuesRule(
        "nodeProviderServer.enabled",
        AllOf((_SERVES, Value("watchedNamespaces"))),
        "the server of node groups cannot be installed for some namespaces only: nodes are in none",
    ),
    ValuesRule(
        "serviceMonitor.enabled",
        AllOf((Value("serviceMonitor.enabled"), Value("podMonitor.enabled"))),
        "Prometheus would count every replica twice; use either podMonitor or serviceMonitor",
    ),
    ValuesRule(
        "priorityClass.name",
        AllOf((Value("priorityClass.create"), OneOf(Value("priorityClass.name"), ("", "system-cluster-critical")))),
        "give the priority class that is created a name of its own",
    ),
)
