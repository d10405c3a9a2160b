"""What can stand in a kubeconfig, as far as we use it."""

from __future__ import annotations

from typing import Any

import msgspec


class Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """The base of everything in the file: its keys have hyphens. Unknown keys are skipped, as kubectl does."""


class Cluster(Entry, frozen=True):
    """A server, and how to know that it is the right one."""

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


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A credential plug-in. This part alone is written in camel case."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(Entry, frozen=True):
    """How to be let in."""

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
    exec: Exec | None = None


class Context(Entry, frozen=True):
    """Which cluster, as which user, in which namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Entry, frozen=True):
    """A cluster as it stands in the list."""

    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(Entry, frozen=True):
    """A user as it stands in the list."""

    name: str = ""
    user: User = User()


class NamedContext(Entry, frozen=True):
    """A context as it stands in the list."""

    name: str = ""
    context: Context = Context()


class File(Entry, frozen=True):
    """One kubeconfig."""

    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
