"""Rights of each component, rule by rule: the one table that manifests, chart, documentation and checks are made from.

A rule applies where its scope says: to the objects that a component serves, which is the whole cluster or a list of
watched namespaces; to the cluster, for kinds without a namespace; or to the installation's own namespace. A rule with
a switch is only granted if the switch is on. A component with `--read-only` needs the rules that read, and only those.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.replica_assignment import PROCESS_GROUP, list_member_leases

READ: Final = ("get", "list", "watch")
# What an informer does: it never gets a single object.
_FOLLOW: Final = ("list", "watch")
_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")


class Scope(StrEnum):
    """Where a rule applies.

    `WATCHED` becomes a ClusterRole, or a Role in each watched namespace of a namespaced installation, which has no rule
    of `CLUSTER`. `OWN_NAMESPACE` becomes a Role in the namespace of the installation.
    """

    WATCHED = "watched"
    CLUSTER = "cluster"
    OWN_NAMESPACE = "ownNamespace"


class AccessSwitch(msgspec.Struct, frozen=True):
    """A setting that needs further rights: its path in values and configuration, and whether the rights are granted.

    `role` is the suffix of the name of the role that holds these rights where they are installed separately.
    """

    key: str
    meaning: str
    default: bool
    role: str = ""


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of RBAC, and why a component needs it.

    `escalates` says what a holder of the account could do with it beyond the component's work. `without` says what the
    component does if the rule is missing; a rule without it is required. `for_writing` marks a rule whose reads only
    serve a write, such as the renewal of a Lease. `untested` is why no test on a control plane uses the rule: any other
    rule is used by the tests in all its parts. `shared` marks a rule of code that all components have in common, which
    the tests of one of them use for all. `alternative_names` says that a process uses one of the `names`.
    """

    scope: Scope
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    why: str
    switch: AccessSwitch | None = None
    escalates: str = ""
    without: str = ""
    for_writing: bool = False
    untested: str = ""
    shared: bool = False
    alternative_names: bool = False

    def reading_part(self) -> AccessRule | None:
        """What a component with `--read-only` needs of the rule; None if that is nothing."""
        verbs = () if self.for_writing else tuple(verb for verb in self.verbs if verb in READ)
        if verbs == self.verbs:
            return self
        # What escalates is the writing.
        return msgspec.structs.replace(self, verbs=verbs, escalates="") if verbs else None

    def build_policy_rule(self) -> dict[str, Any]:
        """The rule as Roles and ClusterRoles have it."""
        rule: dict[str, Any] = {"apiGroups": list(self.groups), "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule | {"verbs": list(self.verbs)}


class ComponentRights(msgspec.Struct, frozen=True, kw_only=True):
    """The ServiceAccount of a component, the name of its roles, and its rules.

    `cluster_wide` is the reason why a component cannot be installed for some namespaces only.
    """

    component: str
    account: str
    role: str
    rules: tuple[AccessRule, ...]
    cluster_wide: str = ""

    def list_rules(
        self, scope: Scope, on: Iterable[str] | None = None, *, read_only: bool = False
    ) -> tuple[AccessRule, ...]:
        """The rules of a scope, with those whose switches are on: by default, or of these keys.

        `read_only` are the rules of a component that runs with `--read-only`: what they read.
        """
        rules = (rule for rule in self.rules if rule.scope is scope and is_granted(rule, on))
        return tuple(filter(None, (rule.reading_part() if read_only else rule for rule in rules)))

    def list_switches(self) -> tuple[AccessSwitch, ...]:
        """The switches of the rules, in their order, each once."""
        return tuple(dict.fromkeys(rule.switch for rule in self.rules if rule.switch is not None))


def is_granted(rule: AccessRule, on: Iterable[str] | None = None) -> bool:
    """Whether a rule is granted: its switch is on by default, or is among these keys."""
    if rule.switch is None:
        return True
    return rule.switch.default if on is None else rule.switch.key in on


def _watched(group: str, resources: str, verbs: tuple[str, ...] | str, why: str, **more: Any) -> AccessRule:
    return _rule(Scope.WATCHED, group, resources, verbs, why, **more)


def _cluster(group: str, resources: str, verbs: tuple[str, ...] | str, why: str, **more: Any) -> AccessRule:
    return _rule(Scope.CLUSTER, group, resources, verbs, why, **more)


def _own(group: str, resources: str, verbs: tuple[str, ...] | str, why: str, **more: Any) -> AccessRule:
    return _rule(Scope.OWN_NAMESPACE, group, resources, verbs, why, **more)


def _rule(scope: Scope, group: str, resources: str, verbs: tuple[str, ...] | str, why: str, **more: Any) -> AccessRule:
    listed = tuple(verbs.split()) if isinstance(verbs, str) else verbs
    return AccessRule(scope=scope, groups=(group,), resources=tuple(resources.split()), verbs=listed, why=why, **more)


_VPA_GROUP: Final = "autoscaling.k8s.io"
_OWN_GROUP: Final = "autoscaling.x-k8s.io"
_LEASES: Final = "coordination.k8s.io"

_SCALES: Final = "Targets of any other kind: their scale subresource has the selector."


def _lease(name: str, why: str) -> tuple[AccessRule, AccessRule]:
    """Rights to one Lease. RBAC cannot restrict `create` to a name."""
    return (
        _own(_LEASES, "leases", "create", f"Creates the Lease {name}. RBAC cannot restrict `create` to one name."),
        _own(_LEASES, "leases", "get patch", why, names=(name,), for_writing=True),
    )


MEMBER_LEASES: Final = AccessSwitch(
    "memberLeases",
    "Replicas know one another by member Leases: `trellis run` spreads leaders (--spread-leaders), and recommender and "
    "updater share namespaces (--shard-namespaces).",
    default=False,
)


def _leader_election(name: str, *, shards: bool = False) -> tuple[AccessRule, ...]:
    """Rights to the Lease of a component's leader, which candidates watch, and to those of replicas."""
    members = [*list_member_leases(PROCESS_GROUP), *(list_member_leases(name) if shards else ())]
    return (
        *_lease(name, "Its own Lease, for --leader-elect."),
        _own(
            _LEASES,
            "leases",
            "watch",
            "A Lease that is released is taken at once.",
            names=(name,),
            without="A released Lease is taken after up to 5 seconds.",
            for_writing=True,
            shared=True,
        ),
        _own(
            _LEASES,
            "leases",
            "list watch",
            "The member Leases of other replicas. RBAC cannot restrict `list` to some names.",
            switch=MEMBER_LEASES,
            without="Leaders stay with the replica that has them, and namespaces cannot be shared.",
            for_writing=True,
            shared=True,
        ),
        _own(
            _LEASES,
            "leases",
            "get patch",
            "Its own member Lease.",
            names=tuple(members),
            switch=MEMBER_LEASES,
            for_writing=True,
            shared=True,
            alternative_names=True,
        ),
    )


CONFIG_PAGE: Final = AccessSwitch(
    "configPage=authenticated",
    "The settings in effect are shown at /config to callers with a bearer token.",
    default=False,
    role="config-page",
)


def _config_page() -> tuple[AccessRule, AccessRule]:
    """Rights to ask who sends a bearer token, and whether that user may get /config."""
    return (
        _cluster(
            "authentication.k8s.io",
            "tokenreviews",
            "create",
            "Whose bearer token a request for /config has.",
            switch=CONFIG_PAGE,
            shared=True,
        ),
        _cluster(
            "authorization.k8s.io",
            "subjectaccessreviews",
            "create",
            "Whether the user of the token may get /config.",
            switch=CONFIG_PAGE,
            shared=True,
            escalates="May find out what any user is allowed to do.",
        ),
    )


def _own_events() -> AccessRule:
    """The right to post Events about the component itself, where it posts no others."""
    return _own(
        "",
        "events",
        "create patch",
        "Events about its configuration file, and of its Lease about new leaders.",
        without="A configuration file that is refused shows in the log and in metrics only, and so do new leaders.",
        shared=True,
    )


def _controllers_of_pods(why: str, verbs: tuple[str, ...] = _FOLLOW) -> tuple[AccessRule, ...]:
    return (
        _watched("apps", "daemonsets deployments replicasets statefulsets", verbs, why),
        _watched("batch", "cronjobs jobs", verbs, why),
    )


def _sizes(why: str) -> tuple[AccessRule, ...]:
    return (
        _watched(_VPA_GROUP, "verticalpodautoscalers", _FOLLOW, why),
        _watched(_OWN_GROUP, "hvpas", _FOLLOW, why, without="Hvpas are ignored."),
    )


EXTERNAL_METRICS: Final = AccessSwitch(
    "recommender.useExternalMetrics", "Usage from external.metrics.k8s.io instead of metrics.k8s.io.", default=True
)

_RECOMMENDER: Final = ComponentRights(
    component="recommender",
    account="vpa-recommender",
    role="trellis-recommender",
    rules=(
        _watched("metrics.k8s.io", "pods", "list", "Usage of containers."),
        _watched(
            "external.metrics.k8s.io",
            "*",
            "list",
            "Usage with --use-external-metrics: one resource for each metric.",
            switch=EXTERNAL_METRICS,
        ),
        _watched("", "pods replicationcontrollers", _FOLLOW, "Pods and their controllers."),
        *_controllers_of_pods("Controllers of pods."),
        _watched("*", "*/scale", "get", _SCALES),
        _watched("", "events", "list watch", "Events, which report evictions for lack of memory."),
        _watched(
            _VPA_GROUP,
            "verticalpodautoscalers",
            READ,
            "Autoscalers. Before a checkpoint is removed, its VPA is read once more.",
        ),
        _watched(_VPA_GROUP, "verticalpodautoscalers/status", "patch", "Writes their status, never their spec."),
        _watched(_OWN_GROUP, "hvpas", _FOLLOW, "Autoscalers.", without="Totals are not published in Hvpas."),
        _watched(_OWN_GROUP, "hvpas/status", "patch", "Writes their status, never their spec."),
        _watched(
            _VPA_GROUP,
            "verticalpodautoscalercheckpoints",
            "get list create patch delete",
            "Checkpoints, which keep the usage history across restarts.",
        ),
        *_leader_election("vpa-recommender-lease", shards=True),
        _own_events(),
        *_config_page(),
    ),
)

REGISTRATION: Final = AccessSwitch(
    "admission.registerWebhook", "The webhook writes its own webhook configuration.", default=True
)
CERTIFICATE_SECRET: Final = AccessSwitch(
    "admission.certificates", "The webhook makes its certificate and keeps it in a Secret.", default=True
)

_OWNER_LOOKUP: Final = "The controllers of a pod. One that the watch has not shown yet is read."

_ADMISSION: Final = ComponentRights(
    component="admission",
    account="vpa-admission-controller",
    role="trellis-admission-controller",
    rules=(
        *_sizes("The objects that size pods."),
        _watched("", "replicationcontrollers", READ, _OWNER_LOOKUP),
        *_controllers_of_pods(_OWNER_LOOKUP, READ),
        _watched("*", "*/scale", "get", _SCALES),
        _watched("", "limitranges", _FOLLOW, "LimitRanges limit a pod's size."),
        _cluster(
            "", "nodes", _FOLLOW, "The capacity of nodes limits a pod's size.", without="Sizes are not limited by it."
        ),
        _cluster(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "create",
            "Its own webhook configuration, for --register-webhook. RBAC cannot restrict `create` to one name.",
            switch=REGISTRATION,
            escalates="A webhook configuration of any name may change every object that is created.",
        ),
        _cluster(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "get patch",
            "Its own webhook configuration.",
            names=("vpa-webhook-config",),
            switch=REGISTRATION,
            for_writing=True,
            escalates="Its own webhook configuration may name other kinds, and change them when they are created.",
        ),
        _own(
            _LEASES,
            "leases",
            "create",
            "Creates the Lease vpa-admission-controller. RBAC cannot restrict `create` to one name.",
        ),
        _own(
            _LEASES,
            "leases",
            "patch",
            "The Lease that shows updaters that the webhook runs.",
            names=("vpa-admission-controller",),
        ),
        _own(
            "",
            "secrets",
            "create",
            "The Secret with its certificate and CA. RBAC cannot restrict `create` to one name.",
            switch=CERTIFICATE_SECRET,
            escalates="A new Secret of type service-account-token holds a token of any account of the namespace. Only "
            "a Secret with the name of the webhook's own can be read, so it would have to come before that.",
        ),
        _own(
            "",
            "secrets",
            "get patch",
            "The Secret with its certificate and CA.",
            names=("trellis-admission-certificates",),
            switch=CERTIFICATE_SECRET,
            for_writing=True,
        ),
        _own_events(),
        *_config_page(),
    ),
)

_UPDATER: Final = ComponentRights(
    component="updater",
    account="vpa-updater",
    role="trellis-updater",
    rules=(
        *_sizes("The objects that size pods."),
        _watched("", "pods replicationcontrollers", _FOLLOW, "Pods and their controllers."),
        *_controllers_of_pods("Controllers of pods, and their replicas."),
        _watched("*", "*/scale", "get", _SCALES),
        _watched("", "limitranges", _FOLLOW, "LimitRanges limit a pod's size."),
        _cluster(
            "",
            "nodes",
            _FOLLOW,
            "Capacity of nodes, for the pod that replaces an evicted one.",
            without="Whether the new pod fits is not checked.",
        ),
        _watched(
            "autoscaling",
            "horizontalpodautoscalers",
            _FOLLOW,
            "HPAs of the same workload.",
            without="HPAs are not taken into account.",
        ),
        _cluster(
            "",
            "namespaces",
            _FOLLOW,
            "Namespaces, whose annotations may freeze changes.",
            without="The freeze annotation of namespaces has no effect.",
        ),
        _watched(
            "",
            "pods/eviction",
            "create",
            "Evictions, within disruption budgets.",
            escalates="May end any pod that its disruption budget does not protect.",
        ),
        _watched(
            "",
            "pods",
            "patch",
            "Annotations of pods.",
            escalates="May replace the image of a running container, and so run code under the account of any pod. "
            "RBAC cannot restrict `patch` to annotations.",
        ),
        _watched(
            "", "pods/resize", "patch", "Resizes in place.", escalates="May change requests and limits of any pod."
        ),
        _watched("", "events", "create patch", "Events about its actions."),
        *_leader_election("vpa-updater", shards=True),
        *_config_page(),
        _own(
            _LEASES,
            "leases",
            "get",
            "The Lease that shows that the webhook runs.",
            names=("vpa-admission-controller",),
        ),
        _own(
            "",
            "configmaps",
            _FOLLOW,
            "The ConfigMap that freezes all changes: --freeze-config-map.",
            names=("trellis-freeze",),
            without="The freeze ConfigMap has no effect.",
        ),
    ),
)

_HVPA: Final = ComponentRights(
    component="hvpa",
    account="trellis-hvpa",
    role="trellis-hvpa",
    rules=(
        _watched(_OWN_GROUP, "hvpas", (*_FOLLOW, "patch"), "Hvpas: it writes their spec.replicas."),
        _watched(_OWN_GROUP, "hvpas/status", "patch", "Writes their status."),
        _watched(
            _OWN_GROUP,
            "hvpas/finalizers",
            "update",
            "To own objects if the API server restricts ownership (OwnerReferencesPermissionEnforcement).",
            untested="The API server checks it when an owned object is created, which is not a request of its own.",
        ),
        _watched(
            _VPA_GROUP,
            "verticalpodautoscalers",
            (*_FOLLOW, "create", "patch", "delete"),
            "The VPAs that it owns. RBAC cannot select objects by owner; the controller checks the owner.",
            escalates="May change every VPA, and so the size of any pod that is updated.",
        ),
        _watched(
            "autoscaling",
            "horizontalpodautoscalers",
            (*_FOLLOW, "create", "patch", "delete"),
            "The HPAs that it owns. RBAC cannot select objects by owner; the controller checks the owner.",
            escalates="May change every HPA, and so scale its target.",
        ),
        _watched(
            "*",
            "*/scale",
            "get patch",
            "Targets, of any kind.",
            escalates="May scale every workload, also to zero.",
        ),
        _watched("", "pods", _FOLLOW, "Pods of targets."),
        _watched("", "events", "create patch", "Events about its actions."),
        *_leader_election("trellis-hvpa"),
        *_config_page(),
    ),
)

ADMISSION_DRY_RUN: Final = AccessSwitch(
    "buffers.admissionDryRun",
    "Dry runs of pods show what admission changes in them (--admission-dry-run).",
    default=False,
    role="dry-run",
)
CAPACITY_BUFFERS: Final = AccessSwitch(
    "buffers.capacityBuffers",
    "CapacityBuffers are served (--serve-capacity-buffers) or created (--translate).",
    default=True,
    role="capacity-buffers",
)

_PLACEMENT: Final = "Scheduling rules."

_BUFFER_READS: Final = "Buffers. One is read before its status is written."
_TARGETS: Final = "Targets: their replicas and selector. One is read whole for its pod template."

_BUFFERS: Final = ComponentRights(
    component="buffers",
    account="trellis-buffers",
    role="trellis-buffers",
    cluster_wide="Whether chunks fit depends on nodes, and on the pods of all namespaces that run there.",
    rules=(
        _watched(_OWN_GROUP, "buffers", READ, _BUFFER_READS),
        _watched(_OWN_GROUP, "buffers/status", "patch", "Writes its own fields of their status."),
        _watched("apps", "deployments replicasets statefulsets", READ, _TARGETS),
        _watched("batch", "jobs", READ, _TARGETS),
        _watched(
            "batch",
            "cronjobs",
            _FOLLOW,
            "Owners of Jobs.",
            without="For Buffers on Jobs, a VPA of their CronJob is ignored.",
        ),
        _watched("", "replicationcontrollers", READ, _TARGETS),
        _watched("", "pods", READ, "Pods of targets. One is read whole as the model of a chunk."),
        _watched("*", "*/scale", "get", "Targets of other kinds."),
        *_sizes("They decide the size of new pods."),
        _watched("", "resourcequotas limitranges", _FOLLOW, "Limits of namespaces."),
        _cluster("", "nodes", _FOLLOW, "Limits of nodes, and whether chunks (virtual pods) fit on ready nodes."),
        _cluster(
            "",
            "namespaces persistentvolumes",
            _FOLLOW,
            _PLACEMENT,
            without="Pod affinity by labels of namespaces and volumes of pending pods are ignored.",
        ),
        _watched(
            "",
            "persistentvolumeclaims",
            _FOLLOW,
            _PLACEMENT,
            without="Volumes of pending pods are ignored.",
        ),
        _cluster(
            "storage.k8s.io", "storageclasses", _FOLLOW, _PLACEMENT, without="Volumes of pending pods are ignored."
        ),
        _watched("", "events", "create patch", "Events about Buffers."),
        _watched(
            "",
            "pods",
            "create",
            "For a target without a pod: a dry run, which stores nothing, shows what admission changes in a pod of its "
            "template. RBAC cannot restrict `create` to dry runs.",
            switch=ADMISSION_DRY_RUN,
            escalates="May run a pod under any ServiceAccount, and so use the rights of each of them.",
            without="A template gets the defaults of LimitRanges, and is otherwise used as written.",
        ),
        _watched(
            _OWN_GROUP,
            "capacitybuffers",
            (*READ, "create", "patch", "delete"),
            "CapacityBuffers.",
            switch=CAPACITY_BUFFERS,
        ),
        _watched(_OWN_GROUP, "capacitybuffers/status", "patch", "Writes their status.", switch=CAPACITY_BUFFERS),
        _watched(
            "",
            "podtemplates",
            (*READ, "create", "patch", "delete"),
            "PodTemplates, which CapacityBuffers refer to.",
            switch=CAPACITY_BUFFERS,
        ),
        *_leader_election("trellis-buffers"),
        *_config_page(),
        _own(
            _LEASES,
            "leases",
            "get",
            "The Lease of `trellis nodes`: while it is held, its holder writes `Provisioned`.",
            names=("trellis-nodes",),
        ),
    ),
)

KWOK: Final = AccessSwitch(
    "nodes.cloudProviders=kwok",
    "The provider kwok creates and deletes Node objects. `deploy/nodes.yaml` has it; the chart has no provider before "
    "one is named.",
    default=True,
    role="kwok",
)

CLUSTER_API: Final = AccessSwitch(
    "nodes.cloudProviders=clusterapi",
    "The provider clusterapi changes the size of Machine groups in this cluster, and names Machines to remove. Where "
    "Cluster API runs in another cluster, its kubeconfig needs the same rights there.",
    default=False,
    role="cluster-api",
)
KARPENTER: Final = AccessSwitch(
    "nodes.cloudProviders=karpenter",
    "The provider karpenter creates and deletes NodeClaims, whose machines Karpenter launches and ends.",
    default=False,
    role="karpenter",
)
PROVISIONING_REQUESTS: Final = AccessSwitch(
    "nodes.provisioningRequests",
    "ProvisioningRequests are served (--enable-provisioning-requests).",
    default=False,
    role="provisioning-requests",
)
_CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"
_BY_MACHINES: Final = "`make machines-test` runs the provider with these rights, on control planes of its own."


def _cluster_api_rules(switch: AccessSwitch) -> tuple[AccessRule, ...]:
    return (
        _cluster(
            _CLUSTER_API_GROUP,
            "clusters machinedeployments machinepools machines machinesets",
            _FOLLOW,
            "For the provider clusterapi: its node groups and their Machines.",
            switch=switch,
            untested=_BY_MACHINES,
        ),
        _cluster(
            _CLUSTER_API_GROUP,
            "machines",
            "patch",
            "For the provider clusterapi: marks the Machine to remove.",
            switch=switch,
            escalates="May change every Machine, and so which of them are deleted.",
            untested=_BY_MACHINES,
        ),
        _cluster(
            _CLUSTER_API_GROUP,
            "machinedeployments machinedeployments/scale machinepools machinepools/scale machinesets machinesets/scale",
            "patch",
            "For the provider clusterapi: the size of a node group.",
            switch=switch,
            escalates="May change the number and the template of all Machines, those of control planes excepted.",
            untested=_BY_MACHINES,
        ),
        _cluster(
            "infrastructure.cluster.x-k8s.io",
            "*",
            "get",
            "For the provider clusterapi: the capacity of a group without Machines, in the status of its template. The "
            "kind depends on the infrastructure.",
            switch=switch,
            without="The capacity has to be in annotations.",
            untested=_BY_MACHINES,
        ),
    )


def _karpenter_rules(switch: AccessSwitch) -> tuple[AccessRule, ...]:
    return (
        _cluster(
            "karpenter.sh",
            "nodeclaims",
            (*_FOLLOW, "create", "patch", "delete"),
            "For the provider karpenter: an order creates a NodeClaim, a release marks and deletes it. A finalizer "
            "keeps a failed one until its failure is reported.",
            switch=switch,
            escalates="May launch machines of every node class, and end those of every NodeClaim.",
            untested=_BY_MACHINES,
        ),
    )


_MOVED_PODS: Final = "A pod that moves to another node may need a startup boost (extra CPU) there."

_DEVICES: Final = "Devices that pods claim (Dynamic Resource Allocation, Kubernetes 1.34 and later)."
_WITHOUT_DEVICES: Final = "Pods with resource claims get no nodes, and keep theirs."

_NODES: Final = ComponentRights(
    component="nodes",
    account="trellis-nodes",
    role="trellis-nodes",
    cluster_wide="Nodes run pods of all namespaces: a node whose pods cannot be read would look empty.",
    rules=(
        _cluster(
            "",
            "nodes",
            (*_FOLLOW, "patch"),
            "Nodes, which it taints before their removal.",
            escalates="May change labels and taints of every node, and so where pods run.",
        ),
        _watched("", "pods", _FOLLOW, "Pods, which must fit elsewhere before a node is removed."),
        _watched(
            "",
            "pods/eviction",
            "create",
            "Evicts pods from a node before its removal, within disruption budgets.",
            escalates="May end any pod that its disruption budget does not protect.",
        ),
        _watched("policy", "poddisruptionbudgets", _FOLLOW, "Disruption budgets of the pods of a node."),
        _watched(_OWN_GROUP, "buffers", READ, _BUFFER_READS),
        _watched(_OWN_GROUP, "buffers/status", "patch", "Writes its own fields of their status."),
        _watched("apps", "daemonsets", _FOLLOW, "DaemonSets, which use a part of each new node."),
        _cluster("", "namespaces persistentvolumes", _FOLLOW, _PLACEMENT),
        _watched("", "persistentvolumeclaims", _FOLLOW, _PLACEMENT),
        _cluster("storage.k8s.io", "storageclasses", _FOLLOW, _PLACEMENT),
        _watched(
            "resource.k8s.io", "resourceclaims resourceclaimtemplates", _FOLLOW, _DEVICES, without=_WITHOUT_DEVICES
        ),
        _cluster("resource.k8s.io", "resourceslices", _FOLLOW, _DEVICES, without=_WITHOUT_DEVICES),
        _watched("apps", "deployments replicasets statefulsets", _FOLLOW, _MOVED_PODS),
        _watched("batch", "jobs cronjobs", _FOLLOW, _MOVED_PODS),
        _watched("", "replicationcontrollers limitranges", _FOLLOW, _MOVED_PODS),
        *_sizes(_MOVED_PODS),
        _watched("", "events", "create patch", "Events about its actions."),
        _watched(
            "scheduling.x-k8s.io",
            "podgroups",
            _FOLLOW,
            "PodGroups, whose pods have to run together.",
            without="Nodes are ordered for their pods one by one.",
        ),
        _watched(
            _OWN_GROUP,
            "provisioningrequests",
            READ,
            "ProvisioningRequests. One is read before its status is written.",
            switch=PROVISIONING_REQUESTS,
            without="They are not served.",
        ),
        _watched(
            _OWN_GROUP, "provisioningrequests/status", "patch", "Writes their conditions.", switch=PROVISIONING_REQUESTS
        ),
        _watched(
            "",
            "podtemplates",
            _FOLLOW,
            "PodTemplates, which ProvisioningRequests name.",
            switch=PROVISIONING_REQUESTS,
            without="No ProvisioningRequest is accepted.",
        ),
        _cluster(
            "",
            "nodes",
            "create delete",
            "For the provider kwok: an order creates a Node, a release deletes it.",
            switch=KWOK,
            escalates="May delete every Node object; its pods are then deleted too.",
        ),
        *_cluster_api_rules(CLUSTER_API),
        *_karpenter_rules(KARPENTER),
        *_leader_election("trellis-nodes"),
        *_config_page(),
        _own(
            "",
            "configmaps",
            _FOLLOW,
            "The node groups of the provider karpenter, for --karpenter-node-groups.",
            names=("trellis-karpenter-node-groups",),
            switch=KARPENTER,
        ),
        _own(
            "",
            "configmaps",
            _FOLLOW,
            "The node groups of the provider kwok, for --kwok-node-groups.",
            names=("trellis-kwok-node-groups",),
        ),
    ),
)

COMPONENT_RIGHTS: Final = (_RECOMMENDER, _ADMISSION, _UPDATER, _HVPA, _BUFFERS, _NODES)

SERVED_KWOK: Final = AccessSwitch(
    "nodeProviderServer.cloudProviders=kwok",
    "The server creates and deletes Node objects, as the provider kwok.",
    default=False,
    role="kwok",
)
SERVED_CLUSTER_API: Final = AccessSwitch(
    "nodeProviderServer.cloudProviders=clusterapi",
    "The server changes the size of Machine groups in this cluster, and names Machines to remove.",
    default=False,
    role="cluster-api",
)
SERVED_KARPENTER: Final = AccessSwitch(
    "nodeProviderServer.cloudProviders=karpenter",
    "The server creates and deletes NodeClaims, whose machines Karpenter launches and ends.",
    default=False,
    role="karpenter",
)

# `trellis node-provider-server`: a client orders and deletes machines through it.
NODE_PROVIDER_SERVER: Final = ComponentRights(
    component="node-provider-server",
    account="trellis-node-provider-server",
    role="trellis-node-provider-server",
    cluster_wide="Nodes are in no namespace.",
    rules=(
        _cluster("", "nodes", _FOLLOW, "Nodes, whose provider ids its clients know."),
        _cluster(
            "",
            "nodes",
            "create delete patch",
            "For the provider kwok: an order creates a Node, which kwok and the scheduler get later; a release deletes "
            "it.",
            switch=SERVED_KWOK,
            escalates="May change and delete every Node object; its pods are then deleted too.",
        ),
        *_cluster_api_rules(SERVED_CLUSTER_API),
        *_karpenter_rules(SERVED_KARPENTER),
        _own(
            "",
            "configmaps",
            _FOLLOW,
            "The node groups of the provider karpenter, for --karpenter-node-groups.",
            names=("trellis-karpenter-node-groups",),
            switch=SERVED_KARPENTER,
        ),
        _own(
            "",
            "configmaps",
            _FOLLOW,
            "The node groups of the provider kwok, for --kwok-node-groups.",
            names=("trellis-kwok-node-groups",),
            switch=SERVED_KWOK,
        ),
    ),
)

PROMETHEUS_DISCOVERY: Final = AccessSwitch(
    "advisor.findPrometheus",
    "Prometheus is found by the labels of its Service, and queried through the API server.",
    default=False,
    role="prometheus",
)

_OMITTED: Final = "The report names the kind that it could not read."

# `trellis recommend` as a CronJob: it reads, and writes a report.
ADVISOR: Final = ComponentRights(
    component="advisor",
    account="trellis-advisor",
    role="trellis-advisor",
    rules=(
        _watched("", "pods", "list", "Pods, whose requests are compared with their usage."),
        _watched("", "replicationcontrollers", "list", "Workloads.", without=_OMITTED),
        _watched("apps", "daemonsets deployments replicasets statefulsets", "list", "Workloads.", without=_OMITTED),
        _watched("batch", "cronjobs jobs", "list", "Workloads.", without=_OMITTED),
        _watched("autoscaling", "horizontalpodautoscalers", "list", "HPAs of the workloads.", without=_OMITTED),
        _watched("", "limitranges", "list", "LimitRanges limit a pod's size.", without=_OMITTED),
        _watched(_VPA_GROUP, "verticalpodautoscalers", "list", "Autoscalers of the workloads.", without=_OMITTED),
        _cluster(
            "",
            "namespaces",
            "get list",
            "Namespaces, for --namespace.",
            without="Namespaces are taken from the pods. A pattern of namespaces matches nothing.",
        ),
        _cluster(
            "", "nodes", "list", "The largest node, for --suggest-buckets.", without="Buckets are not limited by it."
        ),
        _cluster("", "services", "list", "The Service of Prometheus.", switch=PROMETHEUS_DISCOVERY),
        _watched(
            "",
            "services/proxy",
            "get",
            "Queries of Prometheus through the API server. The name of its Service is not known beforehand.",
            switch=PROMETHEUS_DISCOVERY,
            escalates="May send GET requests to every Service, past network policies.",
        ),
    ),
)


def rights_of(component: str) -> ComponentRights:
    """The rights of a component; raises `InvalidInput` if there is none of that name."""
    for rights in COMPONENT_RIGHTS:
        if rights.component == component:
            return rights
    known = ", ".join(rights.component for rights in COMPONENT_RIGHTS)
    raise InvalidInput(component, f"is not a component; the components are {known}")


class UserRole(msgspec.Struct, frozen=True, kw_only=True):
    """Rights of users, which are aggregated into these roles of Kubernetes."""

    name: str
    aggregated_to: tuple[str, ...]
    rules: tuple[AccessRule, ...]


USER_ROLES: Final = (
    UserRole(
        name="trellis-view",
        aggregated_to=("view", "edit", "admin"),
        rules=(
            _watched(
                _VPA_GROUP,
                "verticalpodautoscalers verticalpodautoscalercheckpoints",
                READ,
                "A user who may view a namespace may view its autoscalers.",
            ),
            _watched(
                _OWN_GROUP,
                "hvpas hvpas/scale buffers buffers/scale",
                READ,
                "A user who may view a namespace may view its autoscalers.",
            ),
        ),
    ),
    UserRole(
        name="trellis-edit",
        aggregated_to=("edit", "admin"),
        rules=(
            _watched(
                _VPA_GROUP,
                "verticalpodautoscalers",
                _WRITE,
                "A user who may edit a namespace may edit its autoscalers. Only controllers write statuses.",
            ),
            _watched(
                _OWN_GROUP,
                "hvpas buffers",
                _WRITE,
                "A user who may edit a namespace may edit its autoscalers. Only controllers write statuses.",
            ),
            _watched(_OWN_GROUP, "hvpas/scale buffers/scale", "update patch", "Hvpas and Buffers can be scaled."),
        ),
    ),
)
