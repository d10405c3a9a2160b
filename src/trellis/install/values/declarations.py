"""What can be chosen about an installation, declared once.

From these structs come the chart's `values.yaml` and `values.schema.json`, the reference page of its values, and the
validation of `trellis install`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from trellis.api.schema.fields import Field, Opaque
from trellis.install.monitoring.rules import RUNBOOKS

DROP_IN: Final = "drop-in"
FULL: Final = "full"
READ_ONLY: Final = "read-only"
ADVISOR: Final = "advisor"
PRESETS: Final = {
    DROP_IN: "recommender, updater and admission controller, each with its own Deployment, under upstream's names",
    FULL: "all components, the node autoscaler if its providers are named: the admission controller in a Deployment "
    "of its own, the others in one",
    READ_ONLY: "recommendations and explanations: the recommender, and the other controllers with --read-only; no "
    "admission controller, and no right to change a pod",
    ADVISOR: "a CronJob that prints what each workload should request; it may only read",
}

SEPARATE: Final = "separate"
SHARED: Final = "shared"
SINGLE: Final = "single"

_COMPONENTS: Final = ("recommender", "admission", "updater", "hvpa", "buffers", "nodes")
_LABEL_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LABEL_RULE: Final = "must consist of a-z, 0-9 and '-', and start and end with a letter or digit"

Structure: TypeAlias = Annotated[dict[str, Any], Field()]
Strings: TypeAlias = Annotated[dict[str, Annotated[str, Field()]], Field()]
Names: TypeAlias = list[Annotated[str, Field(max_length=253, min_length=1)]]
Objects: TypeAlias = list[Opaque]


class ValuesStruct(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The base of all structs of values: every field is written out, also where it has its default."""


ShardNamespaces = Annotated[
    bool,
    Field(
        "Share the namespaces among all replicas instead of electing a leader, and grant the right to member Leases.",
        required=True,
    ),
]


class ImageValues(ValuesStruct, frozen=True):
    """The image of all components."""

    repository: Annotated[
        str,
        Field(
            "Registry and name, such as `registry.example/trellis`.",
            required=True,
            min_length=1,
            max_length=255,
            pattern=r"^(([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*$",
            pattern_message="must be a registry and a name such as registry.example/trellis, without a tag",
        ),
    ] = "trellis"
    tag: Annotated[
        str,
        Field(
            "Tag. Empty: the version of the chart.",
            required=True,
            max_length=128,
            pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*)?$",
            pattern_message="must consist of A-Z, a-z, 0-9, '_', '.' and '-'",
        ),
    ] = ""
    digest: Annotated[
        str,
        Field(
            "Digest, such as `sha256:1f2e...`, which wins over the tag.",
            required=True,
            pattern=r"^(sha256:[0-9a-f]{64})?$",
            pattern_message="must be sha256: and 64 digits of 0-9 and a-f",
        ),
    ] = ""
    pull_policy: Annotated[
        str, Field("When nodes pull the image.", required=True, enum=("Always", "IfNotPresent", "Never"))
    ] = "IfNotPresent"


class CrdValues(ValuesStruct, frozen=True):
    """CustomResourceDefinitions."""

    install: Annotated[
        bool,
        Field(
            "Install and upgrade the CRDs. An uninstallation keeps them, and with them every VPA, Hvpa and Buffer. The "
            "preset advisor needs none.",
            required=True,
        ),
    ] = True


class RbacValues(ValuesStruct, frozen=True):
    """Roles and their bindings."""

    create: Annotated[bool, Field("Create roles and bindings, one role per component.", required=True)] = True
    user_roles: Annotated[
        bool,
        Field("Let users who may view or edit a namespace do so with its VPAs, Hvpas and Buffers.", required=True),
    ] = True


class AccountValues(ValuesStruct, frozen=True):
    """ServiceAccounts."""

    create: Annotated[
        bool, Field("Create the ServiceAccounts. Without it they must exist, under the same names.", required=True)
    ] = True
    annotations: Annotated[Strings, Field("Annotations of the ServiceAccounts.", required=True)] = msgspec.field(
        default_factory=dict
    )


def _resources(cpu: str, request: str, limit: str) -> dict[str, Any]:
    # No CPU limit: it would delay the answer of a component just when the cluster is busy.
    return {"requests": {"cpu": cpu, "memory": request}, "limits": {"memory": limit}}


class ProcessValues(ValuesStruct, frozen=True):
    """One Deployment."""

    resources: Annotated[
        Structure, Field("Requests and limits of the container. A CPU limit would delay its work.", required=True)
    ] = msgspec.field(default_factory=lambda: _resources("50m", "200Mi", "500Mi"))
    args: Annotated[list[str], Field("Further flags, as the command takes them.", required=True)] = msgspec.field(
        default_factory=list
    )


class ControllersValues(ProcessValues, frozen=True):
    """The Deployment `trellis`, which runs several components in one process."""

    resources: Annotated[
        Structure, Field("Requests and limits of the container. A CPU limit would delay its work.", required=True)
    ] = msgspec.field(default_factory=lambda: _resources("100m", "500Mi", "2Gi"))


class RecommenderValues(ProcessValues, frozen=True):
    """The recommender. `resources` and `args` apply where it has a Deployment of its own."""

    resources: Annotated[
        Structure, Field("Requests and limits of the container. A CPU limit would delay its work.", required=True)
    ] = msgspec.field(default_factory=lambda: _resources("50m", "500Mi", "1000Mi"))
    extra_names: Annotated[
        list[Annotated[str, Field(max_length=63, pattern=_LABEL_NAME, pattern_message=_LABEL_RULE)]],
        Field(
            "Further recommenders that it runs beside `default`, such as `frugal`. Each has a Lease, which the role "
            "then covers.",
            required=True,
            max_items=20,
        ),
    ] = msgspec.field(default_factory=list)
    use_external_metrics: Annotated[
        bool, Field("Read live usage from external.metrics.k8s.io, and grant the right to it.", required=True)
    ] = False
    shard_namespaces: ShardNamespaces = False


class AdmissionValues(ProcessValues, frozen=True):
    """The admission controller. `resources` and `args` apply where it has a Deployment of its own."""

    register_webhook: Annotated[
        bool,
        Field("Let the webhook fill in its webhook configuration `vpa-webhook-config`.", required=True),
    ] = True
    service_name: Annotated[
        str,
        Field(
            "Name of the Service that the API server calls. Upstream's name; use another one to take over from a Helm "
            "chart of upstream's, whose Service selects other labels.",
            required=True,
            max_length=63,
            pattern=_LABEL_NAME,
            pattern_message=_LABEL_RULE,
        ),
    ] = "vpa-webhook"
    certificates: Annotated[
        str,
        Field(
            "Source of the certificate: `secret` for a generated one that is kept in a Secret, or `files`, which "
            "`admission.certificateSecret` contains.",
            required=True,
            enum=("secret", "files"),
        ),
    ] = "secret"
    certificate_secret: Annotated[
        str,
        Field(
            "Secret with caCert.pem, serverCert.pem and serverKey.pem, for certificates from files.",
            required=True,
            max_length=253,
        ),
    ] = ""
    timeout_seconds: Annotated[
        int,
        Field(
            "How long the API server waits for the webhook: the most by which a broken network delays a new pod.",
            required=True,
            minimum=1,
            maximum=30,
        ),
    ] = 5
    failure_policy_fail: Annotated[
        bool,
        Field(
            "Refuse pods and autoscalers while the webhook does not answer, instead of admitting them.", required=True
        ),
    ] = False


class UpdaterValues(ProcessValues, frozen=True):
    """The updater. `resources` and `args` apply where it has a Deployment of its own."""

    resources: Annotated[
        Structure, Field("Requests and limits of the container. A CPU limit would delay its work.", required=True)
    ] = msgspec.field(default_factory=lambda: _resources("50m", "500Mi", "1000Mi"))
    shard_namespaces: ShardNamespaces = False


class HvpaValues(ProcessValues, frozen=True):
    """The Hvpa controller. `resources` and `args` apply where it has a Deployment of its own."""


class BuffersValues(ProcessValues, frozen=True):
    """The Buffer controller. `resources` and `args` apply where it has a Deployment of its own."""

    capacity_buffers: Annotated[
        str,
        Field(
            "What to do with upstream's CapacityBuffers: `serve` them, or `translate` Buffers to them. Empty: nothing.",
            required=True,
            enum=("", "serve", "translate"),
        ),
    ] = ""
    admission_dry_run: Annotated[
        bool,
        Field(
            "Ask the API server in dry runs what admission makes of a pod template. This grants the right to create "
            "pods, which lets its holder use any ServiceAccount.",
            required=True,
        ),
    ] = False


class NodesValues(ProcessValues, frozen=True):
    """The node autoscaler. `resources` and `args` apply where it has a Deployment of its own."""

    resources: Annotated[
        Structure, Field("Requests and limits of the container. A CPU limit would delay its work.", required=True)
    ] = msgspec.field(default_factory=lambda: _resources("100m", "300Mi", "1500Mi"))
    cloud_providers: Annotated[
        list[str],
        Field(
            "Providers of nodes, each with its rights: `clusterapi` orders Machines, `karpenter` orders NodeClaims, "
            "`externalgrpc` asks a server, `kwok` simulates nodes, to try it out. Empty: the presets leave the node "
            "autoscaler out.",
            required=True,
        ),
    ] = msgspec.field(default_factory=list)
    provisioning_requests: Annotated[
        bool,
        Field(
            "Serve ProvisioningRequests, which queues such as Kueue create. Their definition is not in the chart.",
            required=True,
        ),
    ] = False


class NodeProviderServerValues(ProcessValues, frozen=True):
    """The server of node groups for Cluster Autoscaler's external gRPC protocol."""

    enabled: Annotated[bool, Field("Run `trellis node-provider-server`, with one replica.", required=True)] = False
    cloud_providers: Annotated[
        list[str],
        Field(
            "Providers whose node groups it offers, each with its rights: `kwok`, `clusterapi`, `karpenter`.",
            required=True,
        ),
    ] = msgspec.field(default_factory=list)
    certificate_secret: Annotated[
        str,
        Field(
            "Secret with tls.crt and tls.key of the server, and with ca.crt, the CA of client certificates.",
            required=True,
            max_length=253,
        ),
    ] = ""
    client_names: Annotated[
        Names,
        Field(
            "Names of the clients that may call, as in their certificates. Empty: every certificate of the CA.",
            required=True,
        ),
    ] = msgspec.field(default_factory=list)


class AdvisorValues(ValuesStruct, frozen=True):
    """The CronJob of the preset `advisor`, which runs `trellis recommend`."""

    schedule: Annotated[
        str, Field("When it runs, as a cron schedule in UTC.", required=True, min_length=1, max_length=100)
    ] = "0 6 * * 1"
    args: Annotated[
        list[str],
        Field(
            "Flags of `trellis recommend`, such as `--prometheus-url=http://prometheus.monitoring:9090`.", required=True
        ),
    ] = msgspec.field(default_factory=list)
    resources: Annotated[Structure, Field("Requests and limits of the container.", required=True)] = msgspec.field(
        default_factory=lambda: _resources("100m", "500Mi", "2Gi")
    )
    find_prometheus: Annotated[
        bool,
        Field(
            "Find Prometheus by the labels of its Service, and query it through the API server. This grants the right "
            "to send GET requests to every Service.",
            required=True,
        ),
    ] = False


class PriorityClassValues(ValuesStruct, frozen=True):
    """Priority of the pods."""

    name: Annotated[str, Field("Priority class of the pods. Empty: none.", required=True, max_length=253)] = (
        "system-cluster-critical"
    )
    create: Annotated[
        bool, Field("Create the class under this name, instead of using one that exists.", required=True)
    ] = False
    value: Annotated[
        int, Field("Priority of the class that is created.", required=True, minimum=-1000000000, maximum=1000000000)
    ] = 1000000


class ProbeValues(ValuesStruct, frozen=True):
    """Probes of the Deployments."""

    startup_seconds: Annotated[
        int, Field("How long a container may take to start.", required=True, minimum=1, maximum=3600)
    ] = 60
    period_seconds: Annotated[
        int, Field("Time between two checks of a running container.", required=True, minimum=1, maximum=3600)
    ] = 10
    failure_threshold: Annotated[
        int,
        Field(
            "Failed checks after which a container is not ready, or is restarted.",
            required=True,
            minimum=1,
            maximum=100,
        ),
    ] = 3


class BudgetValues(ValuesStruct, frozen=True):
    """PodDisruptionBudgets."""

    enabled: Annotated[bool, Field("Create a PodDisruptionBudget for each Deployment.", required=True)] = True
    max_unavailable: Annotated[
        int, Field("Pods of a Deployment that may be disrupted at a time.", required=True, minimum=1, maximum=100)
    ] = 1


class NetworkPolicyValues(ValuesStruct, frozen=True):
    """NetworkPolicies."""

    enabled: Annotated[
        bool,
        Field(
            "Create a NetworkPolicy for each Deployment: ingress to the webhook and to metrics; egress to DNS, the "
            "API server and Prometheus. Off by default, because the port of the API server differs between clusters.",
            required=True,
        ),
    ] = False
    api_server_ports: Annotated[
        list[Annotated[int, Field(minimum=1, maximum=65535)]],
        Field("Ports of the API server, behind its Service.", required=True),
    ] = msgspec.field(default_factory=lambda: [443, 6443])
    prometheus_ports: Annotated[
        list[Annotated[int, Field(minimum=1, maximum=65535)]],
        Field("Ports of Prometheus, for usage history. Empty: no egress to it.", required=True),
    ] = msgspec.field(default_factory=lambda: [9090])
    metrics_from: Annotated[
        Objects,
        Field("Peers that may read metrics, as in a NetworkPolicy. Empty: all.", required=True),
    ] = msgspec.field(default_factory=list)
    extra_egress: Annotated[Objects, Field("Further egress rules.", required=True)] = msgspec.field(
        default_factory=list
    )


ScrapeInterval = Annotated[
    str,
    Field(
        "Time between two scrapes.",
        required=True,
        pattern=r"^[0-9]+(ms|s|m|h)$",
        pattern_message="must be a duration such as 30s or 1m",
    ),
]


class PodMonitorValues(ValuesStruct, frozen=True):
    """A PodMonitor of the Prometheus operator."""

    enabled: Annotated[bool, Field("Create a PodMonitor. Its CRD must exist.", required=True)] = False
    labels: Annotated[Strings, Field("Labels by which Prometheus selects it.", required=True)] = msgspec.field(
        default_factory=dict
    )
    interval: ScrapeInterval = "30s"


class ServiceMonitorValues(ValuesStruct, frozen=True):
    """A ServiceMonitor of the Prometheus operator, in place of a PodMonitor."""

    enabled: Annotated[
        bool,
        Field(
            "Create a ServiceMonitor, and a headless Service for the metrics of each Deployment. Its CRD must exist.",
            required=True,
        ),
    ] = False
    labels: Annotated[Strings, Field("Labels by which Prometheus selects it.", required=True)] = msgspec.field(
        default_factory=dict
    )
    interval: ScrapeInterval = "30s"


class RuleValues(ValuesStruct, frozen=True):
    """Alerts for the Prometheus operator."""

    runbooks: Annotated[
        str,
        Field(
            "URL below which the pages of docs/runbooks are served; each alert links to its page.",
            required=True,
            pattern=r"^https?://[^\s%]+[^/\s%]$",
            pattern_message="must be a URL without a slash at its end",
        ),
    ] = RUNBOOKS

    enabled: Annotated[bool, Field("Create a PrometheusRule with the alerts. Its CRD must exist.", required=True)] = (
        False
    )
    labels: Annotated[Strings, Field("Labels by which Prometheus selects it.", required=True)] = msgspec.field(
        default_factory=dict
    )


class DashboardValues(ValuesStruct, frozen=True):
    """Dashboards for Grafana."""

    enabled: Annotated[bool, Field("Create a ConfigMap for each dashboard, for Grafana's sidecar.", required=True)] = (
        False
    )
    labels: Annotated[Strings, Field("Labels by which the sidecar finds them.", required=True)] = msgspec.field(
        default_factory=lambda: {"grafana_dashboard": "1"}
    )
    annotations: Annotated[Strings, Field("Annotations, such as the folder.", required=True)] = msgspec.field(
        default_factory=dict
    )


class InstallValues(ValuesStruct, frozen=True):
    """All values of an installation."""

    preset: Annotated[str, Field("What to install.", required=True, enum=tuple(PRESETS))] = FULL
    components: Annotated[
        list[Annotated[str, Field(enum=_COMPONENTS)]],
        Field("Components to run. Empty: those of the preset.", required=True, max_items=6),
    ] = msgspec.field(default_factory=list)
    processes: Annotated[
        str,
        Field(
            "How components share processes. `separate`: one Deployment for each. `shared`: the admission controller "
            "has its own, the others share one. `single`: all share one, for small clusters whose tenants are "
            "trusted. Empty: `separate` for the preset drop-in, else `shared`.",
            required=True,
            enum=("", SEPARATE, SHARED, SINGLE),
        ),
    ] = ""
    watched_namespaces: Annotated[
        list[Annotated[str, Field(max_length=63, pattern=_LABEL_NAME, pattern_message=_LABEL_RULE)]],
        Field(
            "Namespaces to serve, with Roles in each instead of ClusterRoles. Empty: all namespaces.",
            required=True,
            max_items=1000,
        ),
    ] = msgspec.field(default_factory=list)
    image: Annotated[ImageValues, Field("", required=True)] = ImageValues()
    image_pull_secrets: Annotated[
        Objects, Field("Secrets for the registry, as in a pod: `[{name: registry}]`.", required=True)
    ] = msgspec.field(default_factory=list)
    replicas: Annotated[
        int,
        Field(
            "Pods of each Deployment. All admission controllers answer; each other component has one leader.",
            required=True,
            minimum=0,
            maximum=100,
        ),
    ] = 2
    configuration: Annotated[
        Structure,
        Field(
            "Fields of a TrellisConfiguration: every setting of every component. It becomes a ConfigMap, which the "
            "components read again when it changes.",
            required=True,
        ),
    ] = msgspec.field(default_factory=dict)
    config_page: Annotated[
        str,
        Field(
            "Callers that may read the settings in effect at /config: those on the same host (`loopback`), or also "
            "those with a bearer token that may get the path (`authenticated`), for which tokens are reviewed.",
            required=True,
            enum=("loopback", "authenticated"),
        ),
    ] = "loopback"
    controllers: Annotated[ControllersValues, Field("", required=True)] = ControllersValues()
    recommender: Annotated[RecommenderValues, Field("", required=True)] = RecommenderValues()
    admission: Annotated[AdmissionValues, Field("", required=True)] = AdmissionValues()
    updater: Annotated[UpdaterValues, Field("", required=True)] = UpdaterValues()
    hvpa: Annotated[HvpaValues, Field("", required=True)] = HvpaValues()
    buffers: Annotated[BuffersValues, Field("", required=True)] = BuffersValues()
    nodes: Annotated[NodesValues, Field("", required=True)] = NodesValues()
    node_provider_server: Annotated[NodeProviderServerValues, Field("", required=True)] = NodeProviderServerValues()
    advisor: Annotated[AdvisorValues, Field("", required=True)] = AdvisorValues()
    crds: Annotated[CrdValues, Field("", required=True)] = CrdValues()
    rbac: Annotated[RbacValues, Field("", required=True)] = RbacValues()
    service_accounts: Annotated[AccountValues, Field("", required=True)] = AccountValues()
    priority_class: Annotated[PriorityClassValues, Field("", required=True)] = PriorityClassValues()
    topology_spread: Annotated[
        bool, Field("Spread the pods of a Deployment over nodes and zones, as far as possible.", required=True)
    ] = True
    node_selector: Annotated[Strings, Field("Node selector of the pods.", required=True)] = msgspec.field(
        default_factory=dict
    )
    tolerations: Annotated[Objects, Field("Tolerations of the pods.", required=True)] = msgspec.field(
        default_factory=list
    )
    affinity: Annotated[Structure, Field("Affinity of the pods.", required=True)] = msgspec.field(default_factory=dict)
    extra_env: Annotated[
        Objects, Field("Further environment variables of the containers, such as HTTPS_PROXY.", required=True)
    ] = msgspec.field(default_factory=list)
    probes: Annotated[ProbeValues, Field("", required=True)] = ProbeValues()
    pod_disruption_budgets: Annotated[BudgetValues, Field("", required=True)] = BudgetValues()
    network_policies: Annotated[NetworkPolicyValues, Field("", required=True)] = NetworkPolicyValues()
    pod_monitor: Annotated[PodMonitorValues, Field("", required=True)] = PodMonitorValues()
    service_monitor: Annotated[ServiceMonitorValues, Field("", required=True)] = ServiceMonitorValues()
    prometheus_rule: Annotated[RuleValues, Field("", required=True)] = RuleValues()
    grafana_dashboards: Annotated[DashboardValues, Field("", required=True)] = DashboardValues()
    labels: Annotated[Strings, Field("Further labels of all objects.", required=True)] = msgspec.field(
        default_factory=dict
    )
    annotations: Annotated[Strings, Field("Further annotations of the Deployments.", required=True)] = msgspec.field(
        default_factory=dict
    )
    pod_labels: Annotated[Strings, Field("Further labels of the pods.", required=True)] = msgspec.field(
        default_factory=dict
    )
    pod_annotations: Annotated[Strings, Field("Further annotations of the pods.", required=True)] = msgspec.field(
        default_factory=dict
    )
    extra_objects: Annotated[Objects, Field("Further objects to install, as complete manifests.", required=True)] = (
        msgspec.field(default_factory=list)
    )
