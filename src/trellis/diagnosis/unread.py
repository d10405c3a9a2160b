"""Answers that are missing: what could not be read, why, and which right would let it be read; or all of them."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.errors import Forbidden, KubeError, NotFound, TrellisError, Unauthorized, Unreachable
from trellis.diagnosis.findings import UnknownFact

FORBIDDEN: Final = "may not be read"


class Unread(msgspec.Struct, frozen=True):
    """Something that could not be read. `verb` and `resource`, as RBAC writes them, are the right that is needed."""

    what: str
    why: str
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    is_forbidden: bool = False
    is_absent: bool = False

    @property
    def summary(self) -> str:
        """Why in a few words, for a line that is too short for the right."""
        return FORBIDDEN if self.is_forbidden else self.why

    @property
    def action(self) -> str:
        """How to get the answer, if it takes a right."""
        if not (self.is_forbidden and self.resource):
            return ""
        kind, where = ("role", f" -n {self.namespace}") if self.namespace else ("clusterrole", "")
        name = f"trellis-{self.resource.partition('.')[0].replace('/', '-').replace('*', 'all')}"
        return f"kubectl create {kind} {name}{where} --verb={self.verb} --resource={self.resource}, and bind it to you"

    def to_unknown(self, *, is_essential: bool = False) -> UnknownFact:
        """The same as an unknown fact of a check."""
        right = (self.verb, self.resource, self.namespace) if self.is_forbidden and self.resource else ()
        return UnknownFact(self.what, self.why, self.action, is_essential, *right)


def build_unread(error: TrellisError, what: str, *, verb: str = "", resource: str = "", namespace: str = "") -> Unread:
    """The answer that an error stands for."""
    match error:
        case Forbidden() | Unauthorized():
            right = f" ({verb} {resource})" if resource else ""
            why = f"{FORBIDDEN}{right}"
        case NotFound():
            why = "does not exist"
        case KubeError():
            why = f"could not be read: {error.message}"
        case _:
            why = f"could not be read: {error}"
    return Unread(
        what,
        " ".join(why.split()),
        verb,
        resource,
        namespace,
        is_forbidden=isinstance(error, Forbidden | Unauthorized),
        is_absent=isinstance(error, NotFound),
    )


class NoAnswer(msgspec.Struct, frozen=True):
    """Why there is no answer about a cluster: in a few words, in those of the error, and what to do."""

    what: str
    why: str
    action: str


def build_no_answer(error: KubeError) -> NoAnswer:
    """Why there is no answer, by the error of the first request."""
    match error:
        case Unauthorized():
            what = "your credentials are not accepted"
            action = "log in again, or choose another --context; then: kubectl auth whoami"
        case Unreachable():
            what = "the API server does not answer"
            action = "check --context and --kubeconfig, the network, and: kubectl version"
        case _:
            what = "the API server answers with an error"
            action = "kubectl get --raw '/readyz?verbose' says which part of it fails"
    return NoAnswer(what, str(error), action)
