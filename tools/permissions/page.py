"""Builds the page of rights from the table of rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trellis.install.permissions import (
    ADVISOR,
    COMPONENT_RIGHTS,
    NODE_PROVIDER_SERVER,
    USER_ROLES,
    AccessRule,
    AccessSwitch,
    ComponentRights,
    Scope,
)

_SCOPES: Final = {
    Scope.WATCHED: "watched namespaces",
    Scope.CLUSTER: "cluster",
    Scope.OWN_NAMESPACE: "own namespace",
}

_INTRODUCTION: Final = """# Rights

Every rule of RBAC that Trellis ships, with its reason. `make docs` generates this page from the table that manifests
are made from. `make test` compares the table with the API server's audit log: a right that no test uses fails, and so
does a request that no rule allows. [Security](../guides/security.md) explains how to grant less.

| a rule applies to | it is in |
|---|---|
| watched namespaces | a ClusterRole, or a Role in each watched namespace of an installation for some namespaces |
| cluster | a ClusterRole; an installation for some namespaces does not have it |
| own namespace | a Role in the namespace of the installation |

A rule with a switch is only granted if the switch is on. A component with `--read-only` needs only `get`, `list` and
`watch`, and nothing for its own Lease, Secret and webhook configuration.
"""

_ALL: Final = (*COMPONENT_RIGHTS, NODE_PROVIDER_SERVER, ADVISOR)


def build_permissions_page() -> str:
    """Every rule of every component, those that escalate first."""
    lines = [
        _INTRODUCTION,
        "## Rights that go beyond a component's work",
        "",
        "RBAC restricts verbs, kinds and some names, not what a request says. With these rights, the holder of an "
        "account could do more than the component does.",
        "",
        "| component | right | what its holder could do | why it is needed | switch |",
        "|---|---|---|---|---|",
    ]
    for rights in _ALL:
        for rule in rights.rules:
            if rule.escalates:
                cells = (rights.component, _describe(rule), rule.escalates, rule.why, _name(rule.switch))
                lines.append(_row(cells))
    lines += ["", "## Switches", "", "| switch | rights for | default |", "|---|---|---|"]
    lines += [
        _row((f"`{switch.key}`", switch.meaning, "on" if switch.default else "off")) for switch in _list_switches()
    ]
    for rights in COMPONENT_RIGHTS:
        lines += ["", *_describe_component(rights)]
    server = "`trellis node-provider-server`, if it is installed."
    lines += ["", *_describe_component(NODE_PROVIDER_SERVER, server)]
    lines += ["", *_describe_component(ADVISOR, "`trellis recommend` as a CronJob. It only reads.")]
    lines += ["", *_describe_users()]
    return "\n".join(lines) + "\n"


def _describe_component(rights: ComponentRights, note: str = "") -> Iterator[str]:
    yield f"## {rights.component}"
    yield ""
    yield f"ServiceAccount `{rights.account}`, roles `{rights.role}`. {note}".strip()
    if rights.cluster_wide:
        yield f"It cannot be installed for some namespaces only. {rights.cluster_wide}"
    yield ""
    yield "| applies to | right | reason | switch | without it |"
    yield "|---|---|---|---|---|"
    for rule in rights.rules:
        without = rule.without or ("" if rule.switch else "required")
        reason = f"{rule.why} {rule.untested and f'No test shows its use: {_lower(rule.untested)}'}".strip()
        yield _row((_SCOPES[rule.scope], _describe(rule), reason, _name(rule.switch), without))


def _describe_users() -> Iterator[str]:
    yield "## Users"
    yield ""
    yield "Kubernetes aggregates these ClusterRoles into its own `view`, `edit` and `admin`."
    yield ""
    yield "| role | part of | right | reason |"
    yield "|---|---|---|---|"
    for role in USER_ROLES:
        aggregated = ", ".join(f"`{name}`" for name in role.aggregated_to)
        for rule in role.rules:
            yield _row((f"`{role.name}`", aggregated, _describe(rule), rule.why))


def _list_switches() -> Iterable[AccessSwitch]:
    switches = (switch for rights in _ALL for switch in rights.list_switches())
    return dict.fromkeys(switches)


def _describe(rule: AccessRule) -> str:
    """`list`, `watch` on `pods`, `deployments.apps`."""
    verbs = ", ".join(f"`{verb}`" for verb in rule.verbs)
    resources = ", ".join(
        f"`{resource}` of all groups" if group == "*" else f"`{resource}{group and f'.{group}'}`"
        for group in rule.groups
        for resource in rule.resources
    )
    names = f" named {', '.join(f'`{name}`' for name in rule.names)}" if rule.names else ""
    return f"{verbs} {resources}{names}"


def _name(switch: AccessSwitch | None) -> str:
    return f"`{switch.key}`" if switch is not None else ""


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
