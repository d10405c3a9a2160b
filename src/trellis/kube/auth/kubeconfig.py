"""The connection that a kubeconfig describes: a context in, a `Connection` with its login out.

An error is one line with the file and what to do, because this is the first thing that fails for a new user.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from trellis.base.errors import BadKubeconfig, InvalidInput, format_value, quote_name
from trellis.base.names import suggest_name
from trellis.kube.auth.connection import ClientCertificate, Connection, Impersonation, Login, PluginCall
from trellis.kube.auth.exec_plugin import API_VERSIONS
from trellis.kube.auth.kubeconfig_files import (
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigEntry,
    KubeconfigExec,
    KubeconfigUser,
    LocatedEntry,
    default_files,
    load_kubeconfig,
)
from trellis.kube.transport.proxies import validate_proxy

# The extension of a cluster that is passed to a plug-in.
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE: Final = ("Never", "IfAvailable", "Always")


def build_login(user: LocatedEntry[KubeconfigUser], cluster: KubeconfigCluster, authority: bytes | None) -> Login:
    """The credentials of a user. Files are read now, except a token file, which is re-read on every use."""
    entry = user.entry
    if entry.auth_provider is not None:
        name = format_value(entry.auth_provider.get("name", ""))
        raise user.build_error(f"auth-provider {name} is not supported; use an exec plug-in, as kubectl has since 1.26")
    certificate = user.read_content("client-certificate", entry.client_certificate, entry.client_certificate_data)
    key = user.read_content("client-key", entry.client_key, entry.client_key_data)
    if bool(certificate) != bool(key):
        present, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise user.build_error(f"it has a {present} without a {missing}")
    return Login(
        token=entry.token,
        token_file=str(user.resolve_path(entry.token_file)) if entry.token_file else "",
        certificate=ClientCertificate(certificate, key) if certificate else None,
        # As in client-go, what stands in the file itself comes before a plug-in.
        plugin=_plugin(user, entry.exec, cluster, authority) if entry.exec and not entry.token else None,
    )


def list_warnings(user: LocatedEntry[KubeconfigUser]) -> tuple[str, ...]:
    """Warnings about fields without effect."""
    if not user.entry.username and not user.entry.password:
        return ()
    return (
        f"user {quote_name(user.name)} of {user.file} has a username and password, which the API "
        "server has not accepted since Kubernetes 1.19; they are not sent.",
    )


def _plugin(
    user: LocatedEntry[KubeconfigUser], call: KubeconfigExec, cluster: KubeconfigCluster, authority: bytes | None
) -> PluginCall:
    if call.api_version not in API_VERSIONS:
        raise user.build_error(
            f"exec.apiVersion is {format_value(call.api_version)}; it must be {' or '.join(API_VERSIONS)}"
        )
    if not call.command:
        raise user.build_error("exec has no command")
    # v1 made the field required; before, it was IfAvailable unless said.
    mode = call.interactive_mode or ("" if call.api_version == API_VERSIONS[0] else "IfAvailable")
    if mode not in _INTERACTIVE:
        raise user.build_error(
            f"exec.interactiveMode is {format_value(mode)}; it must be one of {', '.join(_INTERACTIVE)}"
        )
    # A bare name is looked up in PATH; anything with a slash is a path, relative to the file.
    command = str(user.resolve_path(call.command)) if os.sep in call.command else call.command
    return PluginCall(
        api_version=call.api_version,
        command=command,
        arguments=call.args,
        environment=tuple((variable.name, variable.value) for variable in call.env),
        install_hint=call.install_hint,
        interactive=mode,
        cluster=_cluster_info(cluster, authority) if call.provide_cluster_info else None,
    )


def _cluster_info(cluster: KubeconfigCluster, authority: bytes | None) -> Mapping[str, Any]:
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority or b"").decode(),
        "proxy-url": cluster.proxy_url,
        "config": next((e.get("extension") for e in cluster.extensions if e.get("name") == _EXEC_EXTENSION), None),
    }
    return {name: value for name, value in info.items() if value}


E = TypeVar("E", bound=KubeconfigEntry)


def load_kubeconfig_connection(
    environment: Mapping[str, str], *, file: Path | None = None, context: str = "", home: Path | None = None
) -> Connection:
    """The connection of a context, or of the current one; from a file, or from the default files."""
    files = (file,) if file else default_files(environment, home or Path.home())
    config = load_kubeconfig(files, must_exist=file is not None)
    name = context or config.current_context
    if not name:
        choices = ", ".join(sorted(config.contexts)) or "none is defined"
        raise _build_error(config, f"there is no current-context; choose one with --context: {choices}")
    chosen = _find(config, "context", name, config.contexts)
    cluster = _find(config, "cluster", chosen.entry.cluster, config.clusters, name)
    # kubectl too takes a context without a user for an anonymous one.
    user = LocatedEntry(chosen.file, "user", "", KubeconfigUser())
    if chosen.entry.user:
        user = _find(config, "user", chosen.entry.user, config.users, name)
    user_entry = user.entry
    return Connection(
        server=_server(cluster),
        source=f"{chosen.file}, context {quote_name(name)}",
        namespace=chosen.entry.namespace or "default",
        authority=_authority(cluster),
        insecure=cluster.entry.insecure_skip_tls_verify,
        tls_server_name=cluster.entry.tls_server_name,
        proxy=_proxy(cluster),
        login=build_login(user, cluster.entry, _authority(cluster)),
        impersonation=Impersonation(
            user_entry.act_as, user_entry.as_uid, user_entry.as_groups, user_entry.as_user_extra
        ),
        warnings=(*_warnings(cluster), *list_warnings(user)),
    )


def _find(
    config: Kubeconfig, kind: str, name: str, entries: Mapping[str, LocatedEntry[E]], context: str | None = None
) -> LocatedEntry[E]:
    entry = entries.get(name)
    if entry:
        return entry
    meant = suggest_name(name, entries)
    if meant:
        advice = f"did you mean {quote_name(meant)}?"
    else:
        advice = f"there are: {', '.join(map(quote_name, sorted(entries)))}" if entries else "none is defined"
    origin = f", which context {quote_name(context)} names" if context else ""
    raise _build_error(config, f"there is no {kind} {quote_name(name)}{origin}; {advice}")


def _build_error(config: Kubeconfig, rule: str) -> BadKubeconfig:
    return BadKubeconfig(os.pathsep.join(map(str, config.files)), rule)


def _server(cluster: LocatedEntry[KubeconfigCluster]) -> str:
    server = cluster.entry.server
    # kubectl would take an empty one for localhost:8080, where nothing has listened for years.
    if not server:
        raise cluster.build_error("it has no server; set it to the API server's URL")
    url = urlsplit(server if "://" in server else f"https://{server}")
    try:
        valid = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
    except ValueError:  # a port that is no number
        valid = False
    if not valid:
        raise cluster.build_error(f"server {format_value(server)} is not a URL such as https://10.0.0.1:6443")
    return url.geturl().rstrip("/")


def _authority(cluster: LocatedEntry[KubeconfigCluster]) -> bytes | None:
    entry = cluster.entry
    if entry.insecure_skip_tls_verify and (entry.certificate_authority or entry.certificate_authority_data):
        raise cluster.build_error("it has a certificate authority and insecure-skip-tls-verify; remove the latter")
    authority = cluster.read_content(
        "certificate-authority", entry.certificate_authority, entry.certificate_authority_data
    )
    return authority or None


def _proxy(cluster: LocatedEntry[KubeconfigCluster]) -> str:
    if not cluster.entry.proxy_url:
        return ""
    try:
        return validate_proxy(cluster.entry.proxy_url, "proxy-url")
    except InvalidInput as error:
        raise cluster.build_error(f"{format_value(error.value)}: {error.rule}") from error


def _warnings(cluster: LocatedEntry[KubeconfigCluster]) -> tuple[str, ...]:
    if not cluster.entry.insecure_skip_tls_verify:
        return ()
    return (
        f"cluster {quote_name(cluster.name)} of {cluster.file} has insecure-skip-tls-verify: "
        "connections can be intercepted, read and changed on the way.",
    )
