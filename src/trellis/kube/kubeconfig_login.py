"""Who we are, by the entry of a user in a kubeconfig."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, Final

from trellis.base.errors import named, shown
from trellis.kube.connection import ClientCertificate, Login, PluginCall
from trellis.kube.exec_plugin import API_VERSIONS
from trellis.kube.kubeconfig_entries import Cluster, Exec, User
from trellis.kube.kubeconfig_files import Found

# A plug-in that asks about the cluster is told what the extension of this name holds.
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE: Final = ("Never", "IfAvailable", "Always")


def login_of(user: Found[User], cluster: Cluster, authority: bytes | None) -> Login:
    """How to be let in. Secrets in files are read now, but for a token's, which is read again and again."""
    entry = user.entry
    if entry.auth_provider is not None:
        name = shown(entry.auth_provider.get("name", ""))
        raise user.refuse(f"auth-provider {name} is not supported; use an exec plug-in, as kubectl has since 1.26")
    certificate = user.content("client-certificate", entry.client_certificate, entry.client_certificate_data)
    key = user.content("client-key", entry.client_key, entry.client_key_data)
    if bool(certificate) != bool(key):
        given, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise user.refuse(f"it has a {given} without a {missing}")
    return Login(
        token=entry.token,
        token_file=str(user.path(entry.token_file)) if entry.token_file else "",
        certificate=ClientCertificate(certificate, key) if certificate else None,
        # As in client-go, what stands in the file itself comes before a plug-in.
        plugin=_plugin(user, entry.exec, cluster, authority) if entry.exec and not entry.token else None,
    )


def warnings_about(user: Found[User]) -> tuple[str, ...]:
    """What is written there to no effect."""
    if not user.entry.username and not user.entry.password:
        return ()
    return (
        f"user {named(user.name)} of {user.file} has a username and password, which no API server "
        "since Kubernetes 1.19 accepts; they are not sent.",
    )


def _plugin(user: Found[User], call: Exec, cluster: Cluster, authority: bytes | None) -> PluginCall:
    if call.api_version not in API_VERSIONS:
        raise user.refuse(f"exec.apiVersion is {shown(call.api_version)}; it must be {' or '.join(API_VERSIONS)}")
    if not call.command:
        raise user.refuse("exec has no command")
    # v1 made the field required; before, it was IfAvailable unless said.
    mode = call.interactive_mode or ("" if call.api_version == API_VERSIONS[0] else "IfAvailable")
    if mode not in _INTERACTIVE:
        raise user.refuse(f"exec.interactiveMode is {shown(mode)}; it must be one of {', '.join(_INTERACTIVE)}")
    # A bare name is looked up in PATH; anything with a slash is a path, relative to the file.
    command = str(user.path(call.command)) if os.sep in call.command else call.command
    return PluginCall(
        api_version=call.api_version,
        command=command,
        arguments=call.args,
        environment=tuple((variable.name, variable.value) for variable in call.env),
        install_hint=call.install_hint,
        interactive=mode,
        cluster=_cluster_info(cluster, authority) if call.provide_cluster_info else None,
    )


def _cluster_info(cluster: Cluster, authority: bytes | None) -> Mapping[str, Any]:
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority or b"").decode(),
        "proxy-url": cluster.proxy_url,
        "config": next((e.get("extension") for e in cluster.extensions if e.get("name") == _EXEC_EXTENSION), None),
    }
    return {name: value for name, value in info.items() if value}
