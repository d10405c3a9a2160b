"""The commands and flags that the containers start with.

A flag is only set where the installation decides it: by a value, or by its namespace. Everything else is in the
configuration file, which is read again when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.install.objects.conditions import IS_SINGLE, NODE_PROVIDER_SERVER, READS_ONLY, Process, runs
from trellis.install.tree.nodes import (
    NAMESPACE,
    Choice,
    Contains,
    Equals,
    Expression,
    Joined,
    Not,
    Tree,
    Value,
    When,
    all_of,
    extend,
    format_text,
)
from trellis.runtime.manager.settings import ADMISSION, BUFFERS, COMPONENTS, RECOMMENDER

CONFIGURATION_DIRECTORY: Final = "/etc/trellis"
CONFIGURATION_FILE: Final = "config.yaml"
CERTIFICATE_DIRECTORY: Final = "/etc/tls-certs"
GRPC_PORT: Final = 8086

_COMMANDS: Final = {ADMISSION: "admission-controller"}


class _Flag(msgspec.Struct, frozen=True):
    """A flag with its value, and when it is set; None: always."""

    name: str
    value: Expression | str
    condition: Expression | None = None


def build_command(process: Process) -> list[str]:
    """The command of a process."""
    return ["trellis", _COMMANDS.get(process.component, process.component) if process.component else "run"]


def build_arguments(process: Process) -> Tree:
    """The flags of a process, and those that users add."""
    if process is NODE_PROVIDER_SERVER:
        return extend(list(_list_flags_of_server()), Value(f"{process.values}.args"))
    flags = _list_flags_alone(process.component) if process.component else _list_flags_together()
    arguments = [
        When(Value("configuration"), f"--config={CONFIGURATION_DIRECTORY}/{CONFIGURATION_FILE}"),
        *flags,
        When(
            Value("watchedNamespaces"),
            format_text("--vpa-object-namespace=%s", Joined(Value("watchedNamespaces"))),
        ),
        When(Equals(Value("configPage"), "authenticated"), "--config-page=authenticated"),
    ]
    return extend(arguments, Value(f"{process.values}.args"))


def _list_flags_alone(component: str) -> Iterator[Tree]:
    if component != ADMISSION:
        yield "--leader-elect=true"
        yield format_text("--leader-elect-resource-namespace=%s", NAMESPACE)
        # As in a process of several: another replica leads within 13 seconds after a kill.
        yield "--leader-elect-lease-duration=12s"
    if component == BUFFERS:
        yield format_text("--nodes-lease=%s/trellis-nodes", NAMESPACE)
    for flag in _list_flags(component):
        yield _write(f"--{flag.name}=", flag)


def _list_flags_of_server() -> Iterator[Tree]:
    """The server has no configuration file and no leader; clients prove who they are by certificates."""
    providers, names = Value("nodeProviderServer.cloudProviders"), Value("nodeProviderServer.clientNames")
    yield format_text("--cloud-provider=%s", Joined(providers))
    for provider in ("kwok", "karpenter"):
        groups = format_text(f"--{provider}-node-groups=%s/trellis-{provider}-node-groups", NAMESPACE)
        yield When(Contains(providers, provider), groups)
    yield f"--grpc-address=:{GRPC_PORT}"
    for flag, file in (("tls-cert-file", "tls.crt"), ("tls-private-key", "tls.key"), ("client-ca-file", "ca.crt")):
        yield f"--{flag}={CERTIFICATE_DIRECTORY}/{file}"
    yield When(names, format_text("--client-names=%s", Joined(names)))
    yield When(READS_ONLY, "--read-only=true")


def _list_flags_together() -> Iterator[Tree]:
    """`--components` names all and leaves out those that are not installed, or that have a process of their own."""
    left_out = [
        Choice(all_of(runs(component), IS_SINGLE) if component == ADMISSION else runs(component), "", f",-{component}")
        for component in COMPONENTS
    ]
    yield format_text("--components=all" + "%s" * len(COMPONENTS), *left_out)
    yield format_text("--leader-elect-resource-namespace=%s", NAMESPACE)
    for component in COMPONENTS:
        is_here = all_of(runs(component), IS_SINGLE) if component == ADMISSION else runs(component)
        for flag in _list_flags(component):
            condition = all_of(is_here, flag.condition) if flag.condition is not None else is_here
            yield _write(f"--{component}.{flag.name}=", msgspec.structs.replace(flag, condition=condition))


def _write(prefix: str, flag: _Flag) -> Tree:
    text = prefix + flag.value if isinstance(flag.value, str) else format_text(f"{prefix}%s", flag.value)
    return text if flag.condition is None else When(flag.condition, text)


def _list_flags(component: str) -> Iterator[_Flag]:
    """What values and the namespace decide about a component."""
    if component not in (RECOMMENDER, ADMISSION):
        yield _Flag("read-only", "true", READS_ONLY)
    match component:
        case "recommender":
            names = Value("recommender.extraNames")
            yield _Flag("recommender-name", format_text("default,%s", Joined(names)), names)
            yield _Flag("use-external-metrics", "true", Value("recommender.useExternalMetrics"))
            yield _Flag("shard-namespaces", "true", Value("recommender.shardNamespaces"))
        case "admission":
            yield _Flag("webhook-timeout-seconds", format_text("%d", Value("admission.timeoutSeconds")))
            yield _Flag("webhook-failure-policy-fail", "true", Value("admission.failurePolicyFail"))
            yield _Flag("webhook-service", Value("admission.serviceName"))
            yield _Flag("certificates", Value("admission.certificates"))
            yield _Flag("register-webhook", "false", Not(Value("admission.registerWebhook")))
        case "updater":
            yield _Flag("freeze-config-map", format_text("%s/trellis-freeze", NAMESPACE))
            yield _Flag("shard-namespaces", "true", Value("updater.shardNamespaces"))
        case "buffers":
            yield _Flag("serve-capacity-buffers", "true", Equals(Value("buffers.capacityBuffers"), "serve"))
            yield _Flag("translate", "true", Equals(Value("buffers.capacityBuffers"), "translate"))
            yield _Flag("admission-dry-run", "true", Value("buffers.admissionDryRun"))
        case "nodes":
            yield _Flag("cloud-provider", Joined(Value("nodes.cloudProviders")))
            yield _Flag("kwok-node-groups", format_text("%s/trellis-kwok-node-groups", NAMESPACE))
            with_karpenter = Contains(Value("nodes.cloudProviders"), "karpenter")
            groups = format_text("%s/trellis-karpenter-node-groups", NAMESPACE)
            yield _Flag("karpenter-node-groups", groups, with_karpenter)
            yield _Flag("enable-provisioning-requests", "true", Value("nodes.provisioningRequests"))
