"""Compares the rights that components used on the test control plane with those that their accounts are granted.

    prepare(directory)          # before the control plane starts with TESTBED_AUDIT=directory
    find_problems(directory, whole_suite=True)

The API server logs every request of the components' accounts, with the role that allowed it. A request that no rule of
the table of rights covers is a problem, and so is a refused one, unless it is expected. A granted right that no request
used is a problem too, if all tests ran: it is removed from the table, or its rule gets the reason why no test uses it.

    python tools/permissions/audit.py tests/cluster/updater   # says what some tests use, and finds what is refused
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from trellis.install.permissions import (
    ADVISOR,
    COMPONENT_RIGHTS,
    NODE_PROVIDER_SERVER,
    AccessRule,
    ComponentRights,
    Scope,
)

POLICY: Final = "policy.yaml"
NAMESPACE: Final = "kube-system"
# The account of a process of several components, which has the rights of each: only its tests use some shared rights.
PROCESS: Final = ComponentRights(
    component="run", account="trellis", role="", rules=tuple(rule for it in COMPONENT_RIGHTS for rule in it.rules)
)
AUDITED: Final = (*COMPONENT_RIGHTS, NODE_PROVIDER_SERVER, ADVISOR)

_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:"
_DECISION: Final = "authorization.k8s.io/decision"
_REASON: Final = "authorization.k8s.io/reason"
# Every account has these rights: discovery, and reviews of its own rights.
_BUILT_IN_ROLE: Final = "system:"


class Request(msgspec.Struct, frozen=True):
    """A request as RBAC decides on it; `role` is the role that allowed it, empty if it was refused."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    role: str

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{group}{f' {self.name}' if self.name else ''}{place}"


class Expectation(msgspec.Struct, frozen=True):
    """Requests that tests provoke: of an account, for a resource, allowed by a role of the test or refused."""

    account: str
    resource: str
    why: str
    role: str = ""

    def covers(self, request: Request) -> bool:
        """Whether the request is one of these."""
        # Tests that run side by side add a suffix to the names of their ClusterRoles.
        is_role = request.role.startswith(self.role) if self.role else not request.role
        return is_role and (self.account, self.resource) == (request.account, request.resource)


EXPECTED: Final = (
    Expectation("trellis-hvpa", "tokenreviews", "A test asks for /config before the right to reviews is granted."),
    Expectation(
        "trellis-nodes",
        "resourcequotas",
        "`trellis nodes` translates Buffers too, with the role of the Buffer controller bound to its account.",
        role="trellis-buffers",
    ),
    Expectation(
        "trellis-buffers",
        "gameserversets",
        "A package adds a kind of target, and the guide the role for it.",
        role="trellis-buffers-game-servers",
    ),
    Expectation(
        "vpa-recommender",
        "leases",
        "A recommender of another name has a Lease of that name, and the test the role for it.",
        role="frugal-lease",
    ),
)


def build_policy(components: Iterable[ComponentRights] = AUDITED) -> dict[str, Any]:
    """An audit policy that logs the requests of these components, and no others."""
    users = [f"{_ACCOUNT}{rights.account}" for rights in (*components, PROCESS)]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        # A watch has not ended when the API server is killed: its start is what is logged of it.
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": users}, {"level": "None"}],
    }


def prepare(directory: Path) -> None:
    """Write the policy for an API server that logs into this directory."""
    (directory / POLICY).write_text(yaml.safe_dump(build_policy(), sort_keys=False))


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    namespace: str = ""
    name: str = ""


class _AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    user: _User
    object_ref: _Reference | None = None
    annotations: dict[str, str] = {}


def fold(lines: Iterable[bytes]) -> Counter[Request]:
    """The requests in an audit log, with the number of events of each. A line that was cut off is left out."""
    decoder = msgspec.json.Decoder(_AuditEvent)
    requests: Counter[Request] = Counter()
    for line in lines:
        if not line.endswith(b"\n"):
            continue
        event = decoder.decode(line)
        reference = event.object_ref
        if reference is None or not event.user.username.startswith(_ACCOUNT):
            continue
        is_allowed = event.annotations.get(_DECISION) != "forbid"
        requests[
            Request(
                account=event.user.username.removeprefix(_ACCOUNT),
                verb=event.verb,
                group=reference.api_group,
                resource="/".join(filter(None, (reference.resource, reference.subresource))),
                namespace=reference.namespace,
                name=reference.name,
                role=_read_role(event.annotations.get(_REASON, "")) if is_allowed else "",
            )
        ] += 1
    return requests


def _read_role(reason: str) -> str:
    """The name in `RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "a/ns"`."""
    _, _, rest = reason.partition(" of ")
    return rest.split('"')[1] if '"' in rest else "?"


def find_wrong_requests(
    requests: Iterable[Request], components: Iterable[ComponentRights], expected: Sequence[Expectation] = EXPECTED
) -> list[str]:
    """Requests that were refused, and requests that were allowed by another role than the component's."""
    by_account = {rights.account: rights for rights in components}
    problems = set()
    for request in requests:
        if any(expectation.covers(request) for expectation in expected):
            continue
        rights = by_account[request.account]
        if not request.role:
            problems.add(f"{rights.component}: refused: {request}")
        elif not request.role.startswith(_BUILT_IN_ROLE) and not any(_covers(rule, request) for rule in rights.rules):
            problems.add(f"{rights.component}: used and not in the table of rights: {request} ({request.role})")
    return sorted(problems)


def find_unused_rights(requests: Iterable[Request], components: Iterable[ComponentRights]) -> list[str]:
    """Rights that no request used and that have no reason for it, and reasons for rights that were used."""
    allowed = [request for request in requests if request.role]
    problems = []
    for rights in components:
        of_component = [request for request in allowed if request.account == rights.account]
        for rule in rights.rules:
            used = allowed if rule.shared else of_component
            unused = [right for right in _split(rule) if not any(_covers(right, request) for request in used)]
            if rule.untested and not unused:
                problems.append(f"{rights.component}: used, in spite of its reason: {_describe(rule)}")
            elif not rule.untested:
                problems += [f"{rights.component}: granted and not used: {_describe(right)}" for right in unused]
    return problems


def _split(rule: AccessRule) -> Iterator[AccessRule]:
    """Each right of a rule as a rule: one verb on one resource of one group, by one name if it needs several."""
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for names in _split_names(rule):
                    yield msgspec.structs.replace(
                        rule, groups=(group,), resources=(resource,), verbs=(verb,), names=names
                    )


def _split_names(rule: AccessRule) -> Iterable[tuple[str, ...]]:
    return [rule.names] if rule.alternative_names or not rule.names else [(name,) for name in rule.names]


def _covers(rule: AccessRule, request: Request) -> bool:
    """Whether a rule allows a request.

    Tests run side by side, so that each keeps its Lease and its ConfigMaps in a namespace of its own, with a role for
    them: these stand for those of the installation's namespace.
    """
    if request.verb not in rule.verbs or not {request.group, "*"} & set(rule.groups):
        return False
    if not any(_matches(resource, request.resource) for resource in rule.resources):
        return False
    if rule.scope is Scope.OWN_NAMESPACE and request.namespace != NAMESPACE:
        return True
    return not rule.names or request.name in rule.names


def _matches(granted: str, requested: str) -> bool:
    if granted.startswith("*/"):
        return requested.partition("/")[2] == granted.removeprefix("*/")
    return granted in {requested, "*"}


def _describe(rule: AccessRule) -> str:
    group = f".{rule.groups[0]}" if rule.groups[0] else ""
    return " ".join((",".join(rule.verbs), *(f"{name}{group}" for name in rule.resources), *rule.names))


def find_problems(directory: Path, *, whole_suite: bool) -> list[str]:
    """What is wrong with the rights, by the logs in a directory."""
    requests = _read(directory)
    problems = find_wrong_requests(requests, (*AUDITED, PROCESS))
    return [*problems, *(find_unused_rights(requests, AUDITED) if whole_suite else ())]


def _read(directory: Path) -> Counter[Request]:
    total: Counter[Request] = Counter()
    for file in sorted(directory.glob("*.log")):
        with file.open("rb") as lines:
            total += fold(lines)
    return total


def main(tests: Sequence[str]) -> int:
    """Run some tests, print which rights they used and what was refused; the exit status."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        prepare(directory)
        pytest = (sys.executable, "-m", "pytest", "-n", "0", *tests)
        status = subprocess.run(pytest, check=False, env=os.environ | {"TESTBED_AUDIT": name}).returncode
        rights: Counter[str] = Counter()
        for request, count in _read(directory).items():
            right = msgspec.structs.replace(request, namespace="", name="")
            rights[f"{request.account} {right} ({request.role or 'refused'})"] += count
        problems = find_problems(directory, whole_suite=False)
    print(*(f"{count:7} {right}" for right, count in sorted(rights.items())), sep="\n")
    print(*problems, sep="\n")
    return status or bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
