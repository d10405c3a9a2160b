"""ServiceAccounts, roles and bindings: the table of rights, granted to the processes that run the components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from trellis.install.objects.conditions import (
    ADVISES,
    CONTROLLERS,
    IS_SEPARATE,
    IS_SINGLE,
    PROCESSES,
    READS_ONLY,
    SERVES_NODE_GROUPS,
    find_process,
    runs,
)
from trellis.install.objects.metadata import build_labels, build_metadata
from trellis.install.permissions import (
    ADMISSION_DRY_RUN,
    ADVISOR,
    CAPACITY_BUFFERS,
    CERTIFICATE_SECRET,
    CLUSTER_API,
    COMPONENT_RIGHTS,
    CONFIG_PAGE,
    EXTERNAL_METRICS,
    KARPENTER,
    KWOK,
    MEMBER_LEASES,
    NODE_PROVIDER_SERVER,
    PROMETHEUS_DISCOVERY,
    PROVISIONING_REQUESTS,
    REGISTRATION,
    SERVED_CLUSTER_API,
    SERVED_KARPENTER,
    SERVED_KWOK,
    USER_ROLES,
    AccessRule,
    AccessSwitch,
    ComponentRights,
    Scope,
    UserRole,
)
from trellis.install.roles import build_user_role
from trellis.install.tree.nodes import (
    ITEM,
    NAMESPACE,
    Choice,
    Commented,
    Contains,
    Equals,
    Expression,
    ForEach,
    Not,
    Tree,
    Value,
    When,
    all_of,
    any_of,
    format_text,
)
from trellis.runtime.manager.settings import ADMISSION, RECOMMENDER

_RBAC: Final = "rbac.authorization.k8s.io"
_CREATES_ROLES: Final = Value("rbac.create")
_IS_NAMESPACED: Final = Value("watchedNamespaces")

# When the rules with a switch are granted.
_SWITCHES: Final[dict[AccessSwitch, Expression]] = {
    EXTERNAL_METRICS: Value("recommender.useExternalMetrics"),
    REGISTRATION: Value("admission.registerWebhook"),
    CERTIFICATE_SECRET: Equals(Value("admission.certificates"), "secret"),
    CAPACITY_BUFFERS: Value("buffers.capacityBuffers"),
    ADMISSION_DRY_RUN: Value("buffers.admissionDryRun"),
    CONFIG_PAGE: Equals(Value("configPage"), "authenticated"),
    KWOK: Contains(Value("nodes.cloudProviders"), "kwok"),
    CLUSTER_API: Contains(Value("nodes.cloudProviders"), "clusterapi"),
    KARPENTER: Contains(Value("nodes.cloudProviders"), "karpenter"),
    PROVISIONING_REQUESTS: Value("nodes.provisioningRequests"),
    SERVED_KWOK: Contains(Value("nodeProviderServer.cloudProviders"), "kwok"),
    SERVED_CLUSTER_API: Contains(Value("nodeProviderServer.cloudProviders"), "clusterapi"),
    SERVED_KARPENTER: Contains(Value("nodeProviderServer.cloudProviders"), "karpenter"),
    # Components of one process spread their leaders.
    MEMBER_LEASES: any_of(Not(IS_SEPARATE), Value("recommender.shardNamespaces"), Value("updater.shardNamespaces")),
    PROMETHEUS_DISCOVERY: Value("advisor.findPrometheus"),
}


_LEASES_OF_EXTRA_NAMES: Final = When(
    Value("recommender.extraNames"),
    Commented(
        "The Leases of further recommenders.",
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [
                ForEach(Value("recommender.extraNames"), format_text("vpa-recommender-lease-%s", ITEM)),
            ],
            "verbs": ["get", "patch"],
        },
    ),
)


def build_accounts() -> list[Tree]:
    """The ServiceAccount of each process."""
    accounts = [(process.name, process.installed, process.label) for process in PROCESSES]
    accounts.append((ADVISOR.account, ADVISES, ADVISOR.component))
    return [
        When(
            all_of(Value("serviceAccounts.create"), installed),
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": build_metadata(
                    name,
                    labels={"app.kubernetes.io/component": label},
                    annotations=When(Value("serviceAccounts.annotations"), Value("serviceAccounts.annotations")),
                ),
            },
        )
        for name, installed, label in accounts
    ]


def build_component_access(rights: ComponentRights) -> list[Tree]:
    """The roles of a component, bound to the account of the process that runs it."""
    if rights is ADVISOR:
        return [When(all_of(_CREATES_ROLES, ADVISES), _build_roles(rights, rights.account))]
    if rights is NODE_PROVIDER_SERVER:
        return [When(all_of(_CREATES_ROLES, SERVES_NODE_GROUPS), _build_roles(rights, rights.account))]
    # The admission controller has a process of its own, unless there is a single one.
    is_apart = Not(IS_SINGLE) if rights.component == ADMISSION else IS_SEPARATE
    account = Choice(is_apart, find_process(rights.component).name, CONTROLLERS.name)
    return [When(all_of(_CREATES_ROLES, runs(rights.component)), _build_roles(rights, account))]


def build_user_roles() -> list[Tree]:
    """ClusterRoles that Kubernetes aggregates into its own roles for users."""
    return [When(all_of(Value("rbac.userRoles"), Not(ADVISES)), [_build_user_role(role) for role in USER_ROLES])]


def list_access_files() -> Iterator[tuple[str, list[Tree]]]:
    """The roles of each component, and of users, each under the name of a file."""
    for rights in (*COMPONENT_RIGHTS, NODE_PROVIDER_SERVER, ADVISOR):
        yield rights.component, build_component_access(rights)
    yield "users", build_user_roles()


def _build_user_role(role: UserRole) -> Tree:
    manifest = build_user_role(role)
    metadata = manifest["metadata"]
    rules = _comment_rules([(rule, rule.build_policy_rule()) for rule in role.rules])
    return manifest | {"metadata": {"name": role.name, "labels": build_labels(metadata["labels"])}, "rules": rules}


def _build_roles(rights: ComponentRights, account: Expression | str) -> list[Tree]:
    # The recommender and the advisor write nothing but what they are for.
    may_be_idle = rights.component not in (RECOMMENDER, ADMISSION, ADVISOR.component)
    granted = [rule for rule in rights.rules if not _is_superfluous(rule)]
    watched = [rule for rule in granted if rule.scope is Scope.WATCHED]
    cluster = [rule for rule in granted if rule.scope is not Scope.OWN_NAMESPACE]
    own = [rule for rule in granted if rule.scope is Scope.OWN_NAMESPACE]
    trees: list[Tree] = []
    for name, rules in _group_by_role(rights, cluster):
        trees.append(
            When(
                Not(_IS_NAMESPACED), _bind("ClusterRole", name, rules, account, namespace=None, may_be_idle=may_be_idle)
            )
        )
    if not rights.cluster_wide:
        roles = [
            _bind("Role", f"{name}-watched", rules, account, namespace=ITEM, may_be_idle=may_be_idle)
            for name, rules in _group_by_role(rights, watched)
        ]
        trees.append(ForEach(_IS_NAMESPACED, roles))
    if own:
        extra = [_LEASES_OF_EXTRA_NAMES] if rights.component == RECOMMENDER else []
        trees.append(
            _bind("Role", rights.role, own, account, namespace=NAMESPACE, may_be_idle=may_be_idle, extra=extra)
        )
    return trees


def _is_superfluous(rule: AccessRule) -> bool:
    """The installation creates the webhook configuration, so the webhook need not be able to create any.

    It could not create its own anew either while it is being removed.
    """
    return rule.switch is REGISTRATION and rule.verbs == ("create",)


def _group_by_role(rights: ComponentRights, rules: Sequence[AccessRule]) -> list[tuple[str, list[AccessRule]]]:
    """The rules by role: those of some switches have a role of their own."""
    grouped: dict[str, list[AccessRule]] = {}
    for rule in rules:
        suffix = rule.switch.role if rule.switch else ""
        grouped.setdefault(f"{rights.role}-{suffix}" if suffix else rights.role, []).append(rule)
    return list(grouped.items())


def _bind(
    kind: str,
    name: str,
    rules: Sequence[AccessRule],
    account: Expression | str,
    *,
    namespace: Expression | None,
    may_be_idle: bool,
    extra: Sequence[Tree] = (),
) -> Tree:
    """A role and its binding; neither if no rule of it is granted."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata["labels"] = build_labels({})
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [*_comment_rules([(rule, _build_rule(rule, may_be_idle)) for rule in rules]), *extra],
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
    conditions = [_condition_of(rule, may_be_idle) for rule in rules]
    needed = [condition for condition in conditions if condition is not None]
    if len(needed) < len(rules):
        return [role, binding]
    return When(any_of(*dict.fromkeys(needed)), [role, binding])


def _comment_rules(rules: Iterable[tuple[AccessRule, Tree]]) -> list[Tree]:
    """Rules, each with the reason above it; successive rules with the same reason have it once."""
    commented: list[Tree] = []
    for comment, group in groupby(rules, key=lambda pair: f"{pair[0].why} {pair[0].escalates}".strip()):
        (_, first), *others = group
        commented += [_with_comment(comment, first), *(tree for _, tree in others)]
    return commented


def _with_comment(comment: str, tree: Tree) -> Tree:
    if isinstance(tree, When):
        return When(tree.condition, Commented(comment, tree.body))
    return Commented(comment, tree)


def _condition_of(rule: AccessRule, may_be_idle: bool) -> Expression | None:
    """When a rule is granted; None if always."""
    conditions = [_SWITCHES[rule.switch]] if rule.switch is not None else []
    if may_be_idle and rule.reading_part() is None:
        conditions.append(Not(READS_ONLY))
    return all_of(*conditions) if conditions else None


def _build_rule(rule: AccessRule, may_be_idle: bool) -> Tree:
    """A rule of a role, without what a component with `--read-only` does not need."""
    policy: dict[str, Any] = rule.build_policy_rule()
    reading = rule.reading_part()
    if may_be_idle and reading is not None and reading.verbs != rule.verbs:
        policy["verbs"] = [verb if verb in reading.verbs else When(Not(READS_ONLY), verb) for verb in rule.verbs]
    condition = _condition_of(rule, may_be_idle)
    return policy if condition is None else When(condition, policy)
