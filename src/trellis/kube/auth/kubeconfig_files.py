"""Kubeconfig files: their entries, how each file is read, and how several are merged.

The rules are kubectl's: a file given by name must exist; else `KUBECONFIG` lists files, of which missing ones are
skipped; else it is `~/.kube/config`. The first file to name a cluster, user or context wins, with the whole entry.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from trellis.api.kube.decoder import convert_leniently
from trellis.base.errors import BadKubeconfig, quote_name
from trellis.base.yaml.documents import BrokenDocument, read_documents


class KubeconfigEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """The base of everything in the file: its keys have hyphens. Unknown keys are skipped, as kubectl does."""


class KubeconfigCluster(KubeconfigEntry, frozen=True):
    """A server, and how its certificate is verified."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: tuple[dict[str, Any], ...] = ()


class ExecVariable(msgspec.Struct, frozen=True):
    """One variable of a plug-in's environment."""

    name: str = ""
    value: str = ""


class KubeconfigExec(msgspec.Struct, frozen=True, rename="camel"):
    """A credential plug-in. This part alone is written in camel case."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class KubeconfigUser(KubeconfigEntry, frozen=True):
    """The credentials of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    act_as: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: KubeconfigExec | None = None


class KubeconfigContext(KubeconfigEntry, frozen=True):
    """A combination of cluster, user and namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(KubeconfigEntry, frozen=True):
    """A cluster as it stands in the list."""

    name: str = ""
    cluster: KubeconfigCluster = KubeconfigCluster()


class NamedUser(KubeconfigEntry, frozen=True):
    """A user as it stands in the list."""

    name: str = ""
    user: KubeconfigUser = KubeconfigUser()


class NamedContext(KubeconfigEntry, frozen=True):
    """A context as it stands in the list."""

    name: str = ""
    context: KubeconfigContext = KubeconfigContext()


class KubeconfigFile(KubeconfigEntry, frozen=True):
    """One kubeconfig."""

    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()


E = TypeVar("E", bound=KubeconfigEntry)


class LocatedEntry(msgspec.Struct, Generic[E], frozen=True):
    """An entry with its file and name: paths in it are relative to the file, and messages name both."""

    file: Path
    kind: str
    name: str
    entry: E

    def build_error(self, rule: str) -> BadKubeconfig:
        """An error about this entry."""
        return BadKubeconfig(str(self.file), f"{self.kind} {quote_name(self.name)}: {rule}")

    def resolve_path(self, text: str) -> Path:
        """A path relative to the file, resolved."""
        return self.file.absolute().parent / text

    def read_content(self, field: str, path: str, data: str) -> bytes:
        """The value of a pair of fields: base64 in the file itself, which wins, or the name of another file."""
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.build_error(f"{field}-data is not base64: {error}") from error
        if not path:
            return b""
        try:
            return self.resolve_path(path).read_bytes()
        except OSError as error:
            raise self.build_error(f"{field} {self.resolve_path(path)} cannot be read: {error.strerror}") from error


class Kubeconfig(msgspec.Struct, frozen=True):
    """All files, merged."""

    files: tuple[Path, ...]
    current_context: str
    clusters: Mapping[str, LocatedEntry[KubeconfigCluster]]
    users: Mapping[str, LocatedEntry[KubeconfigUser]]
    contexts: Mapping[str, LocatedEntry[KubeconfigContext]]


def load_kubeconfig(files: Sequence[Path], *, must_exist: bool) -> Kubeconfig:
    """Read and merge files. With `must_exist` a missing file is an error; otherwise only if all are missing."""
    read = [(file, _read_file(file)) for file in files if must_exist or file.exists()]
    if not read:
        named = os.pathsep.join(map(str, files))
        raise BadKubeconfig(named, "no such file; name one with --kubeconfig or KUBECONFIG")
    return Kubeconfig(
        files=tuple(file for file, _ in read),
        current_context=next((content.current_context for _, content in read if content.current_context), ""),
        clusters=_merge(
            [LocatedEntry(file, "cluster", c.name, c.cluster) for file, content in read for c in content.clusters]
        ),
        users=_merge([LocatedEntry(file, "user", u.name, u.user) for file, content in read for u in content.users]),
        contexts=_merge(
            [LocatedEntry(file, "context", c.name, c.context) for file, content in read for c in content.contexts]
        ),
    )


def default_files(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """The files that `KUBECONFIG` lists, or the one in the home directory."""
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return tuple(dict.fromkeys(listed)) or (home / ".kube" / "config",)


def _read_file(file: Path) -> KubeconfigFile:
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        raise BadKubeconfig(str(file), "no such file; name another with --kubeconfig or KUBECONFIG") from error
    except OSError as error:
        raise BadKubeconfig(str(file), f"cannot be read: {error.strerror}; check its permissions") from error
    documents = read_documents(text)
    if not documents:
        return KubeconfigFile()
    document = documents[0]
    if isinstance(document, BrokenDocument):
        problem = document.errors[0]
        rule = f"line {problem.line}, column {problem.column}: {problem}; this is not YAML"
        raise BadKubeconfig(str(file), rule) from problem
    if not isinstance(document.value, dict):
        raise BadKubeconfig(str(file), "not a kubeconfig; it should begin with `apiVersion: v1` and `kind: Config`")
    try:
        return convert_leniently(document.value, KubeconfigFile)
    except msgspec.ValidationError as error:
        rule = f"not a kubeconfig: {str(error).replace(' - at `$.', ' at `')}"
        raise BadKubeconfig(str(file), rule) from error


def _merge(entries: Sequence[LocatedEntry[E]]) -> Mapping[str, LocatedEntry[E]]:
    merged: dict[str, LocatedEntry[E]] = {}
    for entry in entries:
        first = merged.setdefault(entry.name, entry)
        if first is not entry and first.file == entry.file:
            raise entry.build_error("the name occurs twice; remove one of them")
    return merged
