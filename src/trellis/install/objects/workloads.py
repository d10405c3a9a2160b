"""Deployments of the components, and the CronJob of the preset `advisor`."""

from __future__ import annotations

from typing import Any, Final

from trellis import __version__
from trellis.install.objects.conditions import (
    ADVISES,
    CONTROLLERS,
    IS_SINGLE,
    NODE_PROVIDER_SERVER,
    PROCESSES,
    Process,
    runs,
)
from trellis.install.objects.flags import (
    CERTIFICATE_DIRECTORY,
    CONFIGURATION_DIRECTORY,
    CONFIGURATION_FILE,
    GRPC_PORT,
    build_arguments,
    build_command,
)
from trellis.install.objects.metadata import build_metadata, build_pod_metadata, build_selector
from trellis.install.permissions import ADVISOR
from trellis.install.tree.nodes import (
    ITEM,
    Choice,
    Commented,
    Equals,
    Expression,
    ForEach,
    Named,
    Tree,
    Value,
    When,
    YamlText,
    all_of,
    any_of,
    extend,
    format_text,
)
from trellis.runtime.manager.configuration import API_VERSION, KIND
from trellis.runtime.manager.settings import ADMISSION, UPDATER

CONFIG_MAP: Final = "trellis-config"
WEBHOOK_PORT: Final = 8000

# Not root: neither a writable disk nor a privilege is needed.
_USER: Final = 65534

_IMAGE: Final = Named(
    "image",
    Choice(
        Value("image.digest"),
        format_text("%s@%s", Value("image.repository"), Value("image.digest")),
        format_text("%s:%s", Value("image.repository"), Choice(Value("image.tag"), Value("image.tag"), __version__)),
    ),
)
_HAS_CERTIFICATE_FILES: Final = Equals(Value("admission.certificates"), "files")


def build_deployments(process: Process) -> list[Tree]:
    """The Deployment of a process."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(
            process.name,
            labels={"app.kubernetes.io/component": process.label},
            annotations=When(Value("annotations"), Value("annotations")),
        ),
        "spec": {
            **_build_replicas(process),
            "selector": {"matchLabels": build_selector(process)},
            "template": {"metadata": build_pod_metadata(process), "spec": _build_pod(process)},
        },
    }
    return [When(process.installed, deployment)]


def _build_replicas(process: Process) -> dict[str, Tree]:
    if process is NODE_PROVIDER_SERVER:
        comment = "A second server would not see at once what the first one has changed."
        return {"replicas": 1, "strategy": Commented(comment, {"type": "Recreate"})}
    return {
        "replicas": Value("replicas"),
        "strategy": Commented(
            "A new pod is ready before an old one ends.",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        ),
    }


def build_server_service() -> list[Tree]:
    """The Service that clients of the server of node providers connect to."""
    process = NODE_PROVIDER_SERVER
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(process.name, labels={"app.kubernetes.io/component": process.label}),
        "spec": {
            "selector": build_selector(process),
            "ports": [{"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "protocol": "TCP"}],
        },
    }
    return [When(process.installed, service)]


def build_configuration() -> list[Tree]:
    """The ConfigMap with the configuration file."""
    heading = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": build_metadata(CONFIG_MAP),
        "data": {CONFIGURATION_FILE: YamlText(heading, Value("configuration"))},
    }
    readers = [process for process in PROCESSES if process is not NODE_PROVIDER_SERVER]
    return [When(all_of(Value("configuration"), any_of(*(process.installed for process in readers))), config_map)]


def build_advisor() -> list[Tree]:
    """A CronJob that prints what each workload should request."""
    container = {
        "name": "advisor",
        "image": _IMAGE,
        "imagePullPolicy": Value("image.pullPolicy"),
        "command": ["trellis", "recommend"],
        "args": When(
            any_of(Value("watchedNamespaces"), Value("advisor.args")),
            extend([ForEach(Value("watchedNamespaces"), format_text("--namespace=%s", ITEM))], Value("advisor.args")),
        ),
        "env": When(Value("extraEnv"), Value("extraEnv")),
        "resources": Value("advisor.resources"),
        "securityContext": _build_container_security(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume of the pod's own
    }
    pod = {
        "serviceAccountName": ADVISOR.account,
        "restartPolicy": "Never",
        **_build_placement(),
        "securityContext": _build_pod_security(),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    labels = {"app.kubernetes.io/component": ADVISOR.component}
    template_labels = {"app": ADVISOR.account, **labels, "app.kubernetes.io/name": "trellis"}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": build_metadata(
            ADVISOR.account, labels=labels, annotations=When(Value("annotations"), Value("annotations"))
        ),
        "spec": {
            "schedule": Value("advisor.schedule"),
            "concurrencyPolicy": "Forbid",
            # A report that could not start for an hour waits for the next time.
            "startingDeadlineSeconds": 3600,
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 1,
                    "template": {
                        "metadata": {
                            "labels": extend(template_labels, Value("podLabels")),
                            "annotations": When(Value("podAnnotations"), Value("podAnnotations")),
                        },
                        "spec": pod,
                    },
                }
            },
        },
    }
    return [When(ADVISES, cron_job)]


def _build_pod(process: Process) -> Tree:
    mounts, volumes = _build_volumes(process)
    container = {
        "name": process.container,
        "image": _IMAGE,
        "imagePullPolicy": Value("image.pullPolicy"),
        "command": build_command(process),
        "args": build_arguments(process),
        "env": _build_environment(process),
        "resources": Value(f"{process.values}.resources"),
        "ports": _build_ports(process),
        **_build_probes(process),
        **_build_lifecycle(process),
        "securityContext": _build_container_security(),
        **mounts,
    }
    return {
        "serviceAccountName": process.name,
        **_build_placement(),
        "topologySpreadConstraints": When(Value("topologySpread"), _build_spread(process)),
        "securityContext": _build_pod_security(),
        "containers": [container],
        **volumes,
    }


def _build_placement() -> dict[str, Tree]:
    return {
        "imagePullSecrets": When(Value("imagePullSecrets"), Value("imagePullSecrets")),
        "priorityClassName": When(Value("priorityClass.name"), Value("priorityClass.name")),
        "nodeSelector": When(Value("nodeSelector"), Value("nodeSelector")),
        "tolerations": When(Value("tolerations"), Value("tolerations")),
        "affinity": When(Value("affinity"), Value("affinity")),
    }


def _build_spread(process: Process) -> list[Tree]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": build_selector(process)},
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]


def _build_environment(process: Process) -> Tree:
    """The namespace says where the Service and the Secret of the webhook are, and for the updater its Lease."""
    namespace = {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    if process.component in ("", ADMISSION, UPDATER):
        return extend([namespace], Value("extraEnv"))
    return When(Value("extraEnv"), Value("extraEnv"))


def _answers_reviews(process: Process) -> Expression | None:
    """When a process has the webhook in it; None if never."""
    if process.component == ADMISSION:
        return process.installed
    return all_of(IS_SINGLE, runs(ADMISSION)) if process is CONTROLLERS else None


def _build_ports(process: Process) -> list[Tree]:
    ports: list[Tree] = [{"name": "prometheus", "containerPort": process.port}]
    webhook = {"name": "webhook", "containerPort": WEBHOOK_PORT}
    if process.component == ADMISSION:
        ports.append(webhook)
    elif process is NODE_PROVIDER_SERVER:
        ports.append({"name": "grpc", "containerPort": GRPC_PORT})
    elif process is CONTROLLERS:
        ports.append(When(all_of(IS_SINGLE, runs(ADMISSION)), webhook))
    return ports


def _build_probes(process: Process) -> dict[str, Tree]:
    def probe(path: str, period: Any, failures: Any) -> Tree:
        check = {"httpGet": {"path": path, "port": "prometheus"}}
        return check | {"periodSeconds": period, "failureThreshold": failures}

    period, failures = Value("probes.periodSeconds"), Value("probes.failureThreshold")
    return {
        "startupProbe": Commented(
            "Until the container has started, also on a busy node, the other probes do not apply.",
            probe("/livez", 1, Value("probes.startupSeconds")),
        ),
        "livenessProbe": probe("/livez", period, failures),
        # Ready are also replicas that do not lead. The webhook is ready when it has a certificate.
        "readinessProbe": probe("/readyz", 2 if process.component == ADMISSION else period, failures),
    }


def _build_lifecycle(process: Process) -> dict[str, Tree]:
    condition = _answers_reviews(process)
    if condition is None:
        return {}
    wait = Commented(
        "API servers send requests to this pod until they know that it is terminating. The image has no shell and no "
        "`sleep`, and Kubernetes 1.29 has no handler that waits.",
        {"preStop": {"exec": {"command": ["python", "-c", "import time; time.sleep(5)"]}}},
    )
    return {"lifecycle": wait if process.component == ADMISSION else When(condition, wait)}


def _build_volumes(process: Process) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """The mounts of the container and the volumes of the pod: configuration, and certificates from files."""
    if process is NODE_PROVIDER_SERVER:
        secret = {"secretName": Value("nodeProviderServer.certificateSecret")}
        mount = {"name": "certificates", "mountPath": CERTIFICATE_DIRECTORY, "readOnly": True}
        return {"volumeMounts": [mount]}, {"volumes": [{"name": "certificates", "secret": secret}]}
    has_configuration: Expression = Value("configuration")
    mounts: list[Tree] = [
        When(has_configuration, {"name": "configuration", "mountPath": CONFIGURATION_DIRECTORY, "readOnly": True})
    ]
    volumes: list[Tree] = [
        When(has_configuration, {"name": "configuration", "configMap": {"name": CONFIG_MAP}}),
    ]
    condition = has_configuration
    answers = _answers_reviews(process)
    if answers is not None:
        has_files = (
            _HAS_CERTIFICATE_FILES if process.component == ADMISSION else all_of(answers, _HAS_CERTIFICATE_FILES)
        )
        secret = {"secretName": Value("admission.certificateSecret")}
        mounts.append(When(has_files, {"name": "certificates", "mountPath": CERTIFICATE_DIRECTORY, "readOnly": True}))
        volumes.append(When(has_files, {"name": "certificates", "secret": secret}))
        condition = any_of(has_configuration, has_files)
    return {"volumeMounts": When(condition, mounts)}, {"volumes": When(condition, volumes)}


def _build_pod_security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _build_container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
