"""Checks rights: those of the user to install, and those of the accounts of the components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.unread import Unread
from trellis.install.permissions import AccessRule, ComponentRights, Scope, is_granted

MAY_NOT_INSTALL = Reason("MayNotInstall", "The user lacks rights that an installation needs.", Severity.WARNING)
RIGHTS_MISSING = Reason("RightsMissing", "The account of a component lacks a right that it needs.", Severity.ERROR)
RIGHTS_REDUCED = Reason(
    "RightsReduced",
    "The account of a component lacks an optional right, so that a feature has no effect.",
    Severity.WARNING,
)

_SHOWN: Final = 3


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource, in a namespace or in all."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        plural, slash, subresource = self.resource.partition("/")
        full = f"{plural}.{self.group}" if self.group else plural
        return f"{self.verb} {full}{slash}{subresource}{f' {self.name}' if self.name else ''}"


class MissingRight(msgspec.Struct, frozen=True):
    """A right that an account lacks; `without` is what its component does without it, empty if it is required.

    `switch` is the key of the setting that needs it, empty for the rights that a component always needs.
    """

    right: Right
    without: str = ""
    switch: str = ""


class AccountAccess(msgspec.Struct, frozen=True):
    """The account of a component, and what it lacks."""

    component: str
    account: str
    missing: tuple[MissingRight, ...] | Unread = ()


class AccessFacts(msgspec.Struct, frozen=True):
    """What the user lacks for an installation, and the accounts of installed components."""

    user_lacks: tuple[Right, ...] | Unread = ()
    accounts: tuple[AccountAccess, ...] = ()


def list_install_rights(namespace: str) -> tuple[Right, ...]:
    """The rights that an installation needs."""
    return (
        Right("create", "customresourcedefinitions", "apiextensions.k8s.io"),
        Right("create", "clusterroles", "rbac.authorization.k8s.io"),
        Right("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
        Right("create", "roles", "rbac.authorization.k8s.io", namespace),
        Right("create", "rolebindings", "rbac.authorization.k8s.io", namespace),
        Right("create", "serviceaccounts", "", namespace),
        Right("create", "services", "", namespace),
        Right("create", "deployments", "apps", namespace),
    )


def list_account_rights(
    rights: ComponentRights, namespace: str, watched: Sequence[str] = (), *, read_only: bool = False
) -> tuple[MissingRight, ...]:
    """Every right that a component's account should have, as one that may be missing.

    `watched` are the namespaces of an installation that serves only these.
    """
    granted = (rule for rule in rights.rules if is_granted(rule))
    rules = filter(None, (rule.reading_part() if read_only else rule for rule in granted))
    places: dict[Scope, Sequence[str]] = {
        Scope.WATCHED: watched or ("",),
        Scope.CLUSTER: () if watched else ("",),
        Scope.OWN_NAMESPACE: (namespace,),
    }
    return tuple(
        MissingRight(right, rule.without, rule.switch.key if rule.switch is not None else "")
        for rule in rules
        for place in places[rule.scope]
        for right in _list_rights(rule, place)
    )


def drop_switched_off(rights: Iterable[MissingRight], missing: Iterable[MissingRight]) -> tuple[MissingRight, ...]:
    """What is missing, but for rights of a switch that the installation has off, or needs in part.

    A switch of which no right is granted is off. Where only `create` is missing, the installation creates the object.
    """
    lacking = tuple(missing)
    granted = {item.switch for item in set(rights) - set(lacking)}
    return tuple(
        item for item in lacking if not item.switch or (item.switch in granted and item.right.verb != "create")
    )


def _list_rights(rule: AccessRule, namespace: str) -> Iterable[Right]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.names or ("",):
                    yield Right(verb, resource, group, namespace, name)


def check_user_access(facts: AccessFacts) -> ClusterCheck:
    """Whether the user may install."""
    name = "your rights"
    if isinstance(facts.user_lacks, Unread):
        return ClusterCheck(name, unknown=(facts.user_lacks.to_unknown(),))
    if not facts.user_lacks:
        return ClusterCheck(name, "you may install")
    lacks = _join_rights(facts.user_lacks)
    return ClusterCheck(
        name,
        "",
        (ClusterFinding(MAY_NOT_INSTALL, "user", f"you may not install: {lacks}", "ask an administrator to install"),),
    )


def check_account_access(facts: AccessFacts) -> ClusterCheck:
    """Whether the accounts of installed components have their rights."""
    name = "accounts"
    findings: list[ClusterFinding] = []
    unread: dict[str, Unread] = {}
    for account in facts.accounts:
        if isinstance(account.missing, Unread):
            unread[account.account] = account.missing
            continue
        required = [missing.right for missing in account.missing if not missing.without]
        optional = [missing for missing in account.missing if missing.without]
        subject = f"{account.component} ({account.account})"
        repair = "apply the roles of the installation again: trellis install, or helm upgrade"
        if required:
            findings.append(ClusterFinding(RIGHTS_MISSING, subject, f"may not {_join_rights(required)}", repair))
        if optional:
            rights = _join_rights([missing.right for missing in optional])
            effects = " ".join(dict.fromkeys(missing.without for missing in optional))
            findings.append(ClusterFinding(RIGHTS_REDUCED, subject, f"may not {rights}. {effects}", repair))
    # The reason is the same for all of them.
    unknown = [msgspec.structs.replace(item, what=f"rights of {', '.join(unread)}") for item in unread.values()][:1]
    count = len({account.account for account in facts.accounts})
    summary = f"{pluralize(count, 'account')} checked, no right is missing" if count else "no account to check"
    return ClusterCheck(name, summary, tuple(findings), tuple(item.to_unknown() for item in unknown))


def _join_rights(rights: Sequence[Right]) -> str:
    """The rights, those of one resource with their verbs together."""
    by_resource: dict[str, list[str]] = {}
    for right in rights:
        text = str(msgspec.structs.replace(right, verb=""))
        verbs = by_resource.setdefault(text.strip(), [])
        verbs += [right.verb] if right.verb not in verbs else []
    texts = [f"{'/'.join(verbs)} {resource}" for resource, verbs in by_resource.items()]
    rest = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
