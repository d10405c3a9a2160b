"""A process whose configuration file is swapped, as the kubelet swaps a mounted ConfigMap."""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testbed.access import shipped_accounts
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.waiting import until
from trellis.cli.process.catalog import import_all_settings
from trellis.install.permissions import CONFIG_PAGE, Scope, rights_of
from trellis.install.roles import Account, bind
from trellis.runtime.manager.configuration.file import read_configuration

TRELLIS = str(Path(sys.executable).with_name("trellis"))
HEAD = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n"
REMOTE = {"X-Forwarded-For": "10.0.0.7"}


class MountedFile:
    """A file in a directory that a link leads to; a new version is a new directory and a changed link."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._versions = 0
        self.path = directory / "config.yaml"
        self.path.symlink_to(Path("..data", "config.yaml"))

    def write(self, text: str) -> None:
        version = self._directory / f"..{self._versions}"
        self._versions += 1
        version.mkdir()
        (version / "config.yaml").write_text(HEAD + text)
        link = self._directory / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self._directory / "..data")


@pytest.fixture
def file(tmp_path: Path) -> MountedFile:
    directory = tmp_path / "mounted"
    directory.mkdir()
    return MountedFile(directory)


Start = Callable[..., Controller]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command of Trellis; its log is shown."""
    started: list[Controller] = []
    with ExitStack() as controllers:

        def run(kubeconfig: Path, command: str, *flags: str, pod: tuple[str, str] = ("", "")) -> Controller:
            namespace, name = pod
            environment = [f"POD_NAMESPACE={namespace}", f"POD_NAME={name}"] if name else []
            arguments = ["/usr/bin/env", *environment, TRELLIS, command]
            log = tmp_path / f"{command}-{len(started)}.log"
            started.append(controllers.enter_context(run_controller(arguments, kubeconfig, log, flags)))
            return started[-1]

        yield run
    for controller in started:
        sys.stdout.write(controller.read_logs())


def get(controller: Controller, path: str, **headers: str) -> tuple[int, str]:
    address = urlsplit(controller.url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=60.0)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def metric(controller: Controller, name: str) -> float:
    match = re.search(rf"^{re.escape(name)} (\S+)$", controller.read_metrics(), re.MULTILINE)
    return float(match[1]) if match else -1.0


def find_events(cluster: Cluster, namespace: str, reason: str) -> list[Json]:
    events = cluster.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [event for event in events if event["reason"] == reason]


def is_ready(controller: Controller) -> bool:
    return controller.get("/readyz")[0] == http.client.OK


def test_a_running_process_takes_over_good_versions_and_keeps_its_settings_through_a_bad_one(
    cluster: Cluster, namespace: str, file: MountedFile, start: Start
) -> None:
    common = (
        f"components: [updater, hvpa]\nvpaObjectNamespace: [{namespace}]\nleaderElectResourceNamespace: {namespace}\n"
        "leaderElectRetryPeriod: 1s\n"
    )
    file.write(common + "updater: {updaterInterval: 7s}\n")
    pod = (namespace, "trellis-0")
    controller = start(cluster.kubeconfig, "run", f"--config={file.path}", "--hvpa.ready-patience=3m", pod=pod)
    until("readiness", lambda: is_ready(controller))
    text = controller.get("/config")[1]
    assert f"\n  updaterInterval: 7s  # {file.path}, line 7\n" in text
    assert "\n  readyPatience: 3m0s  # flag --hvpa.ready-patience\n" in text
    assert metric(controller, "trellis_configuration_last_reload_successful") == 1

    file.write(common + "updater: {updaterInterval: 9s}\naddress: 127.0.0.1:1\n")
    restarts = 'trellis_component_restarts_total{component="updater",reason="reconfigured"}'
    until("a restart of the updater", lambda: metric(controller, restarts) == 1)
    until("readiness", lambda: is_ready(controller))
    interval = 'trellis_component_pass_interval_seconds{component="updater"}'
    assert metric(controller, interval) == 9
    assert metric(controller, restarts.replace("updater", "hvpa")) == -1
    assert metric(controller, 'trellis_configuration_pending_restart{setting="address"}') == -1, "a flag sets it"
    [event] = until("an Event", lambda: find_events(cluster, namespace, "ConfigurationReloaded"))
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Pod", "trellis-0")
    assert event["message"] == f"{file.path}: restarts updater"

    before = controller.get("/config")[1]
    file.write(common + "updater: {updaterIntervall: 1s}\n")
    until("a refusal", lambda: metric(controller, 'trellis_configuration_reloads_total{result="failure"}') == 1)
    assert metric(controller, "trellis_configuration_last_reload_successful") == 0
    assert controller.get("/config")[1] == before
    assert is_ready(controller)
    [event] = until("an Event", lambda: find_events(cluster, namespace, "ConfigurationRefused"))
    assert event["type"] == "Warning"
    assert (
        'line 7: updater.updaterIntervall: Unknown field: there is no field "updaterIntervall" here'
        in (event["message"])
    )
    assert "did you mean" in controller.read_logs()

    file.write(common + "updater: {updaterInterval: 5s}\n")
    until("the next restart of the updater", lambda: metric(controller, restarts) == 2)
    until("readiness", lambda: is_ready(controller))
    assert metric(controller, interval) == 5
    assert metric(controller, "trellis_configuration_last_reload_successful") == 1
    # What it shows is a file with the same effect.
    shown = controller.get("/config")[1]
    assert read_configuration(import_all_settings(), file.path, shown.encode()).layer.components["updater"]


def test_a_component_of_its_own_under_its_account_reports_a_file_that_it_refuses(
    cluster: Cluster, namespace: str, file: MountedFile, start: Start
) -> None:
    common = f"vpaObjectNamespace: [{namespace}]\nleaderElect: false\n"
    file.write(common + "recommender: {recommenderInterval: 7s}\n")
    kubeconfig = shipped_accounts.create_account(cluster, "recommender")
    controller = start(kubeconfig, "recommender", f"--config={file.path}")
    until("readiness", lambda: is_ready(controller))

    file.write(common + "recommender: {recommenderInterval: 0s}\n")
    until("a refusal", lambda: metric(controller, "trellis_configuration_last_reload_successful") == 0)

    def is_told(event: Json) -> bool:
        return str(file.path) in event["message"] and event["involvedObject"]["name"] == "vpa-recommender-lease"

    until("an Event", lambda: any(map(is_told, find_events(cluster, "kube-system", "ConfigurationRefused"))))
    file.write(common + "recommender: {recommenderInterval: 8s}\nv: 2\n")
    interval = 'trellis_component_pass_interval_seconds{component="recommender"}'
    until("the new interval", lambda: metric(controller, interval) == 8)

    file.write(common + "recommender: {recommenderInterval: 0s}\n")

    def is_told_again(event: Json) -> bool:
        return is_told(event) and event.get("count", 1) > 1

    until("it once more", lambda: any(map(is_told_again, find_events(cluster, "kube-system", "ConfigurationRefused"))))
    assert "forbidden" not in controller.read_logs().lower()


def grant_reviews(cluster: Cluster, namespace: str) -> None:
    """Grant the account of the Hvpa controller what the table of rights has for this page, and wait for it."""
    rights = rights_of("hvpa")
    rules = [rule for rule in rights.list_rules(Scope.CLUSTER, [CONFIG_PAGE.key]) if rule.switch is CONFIG_PAGE]
    account = Account(rights.account, shipped_accounts.NAMESPACE)
    role, binding = bind("ClusterRole", f"reviews-{namespace}", rules, account)
    for manifest in (role, binding):
        cluster.api.create(manifest)
    wait_until_granted(cluster.api, f"system:serviceaccount:{account.namespace}:{account.name}", [role])


def test_the_configuration_is_shown_to_callers_elsewhere_if_the_api_server_allows_it(
    cluster: Cluster, namespace: str, file: MountedFile, start: Start
) -> None:
    file.write(
        f"components: [hvpa]\nvpaObjectNamespace: [{namespace}]\nleaderElect: false\nconfigPage: authenticated\n"
    )
    controller = start(shipped_accounts.create_account(cluster, "hvpa"), "run", f"--config={file.path}")
    assert controller.get("/config")[0] == http.client.OK
    assert get(controller, "/config", **REMOTE)[0] == http.client.UNAUTHORIZED

    token = cluster.api.send(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )["status"]["token"]
    headers = {**REMOTE, "Authorization": f"Bearer {token}"}
    status, text = get(controller, "/config", **headers)
    assert (status, "its account needs the right to create tokenreviews" in text) == (http.client.FORBIDDEN, True)
    grant_reviews(cluster, namespace)
    status, text = get(controller, "/config", **headers)
    assert status == http.client.FORBIDDEN
    assert text.startswith(f"system:serviceaccount:{namespace}:default may not get the path /config: a ClusterRole")

    name = f"config-{namespace}"
    rule = {"nonResourceURLs": ["/config"], "verbs": ["get"]}
    rbac = "rbac.authorization.k8s.io"
    cluster.api.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
    cluster.api.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        }
    )
    until("the right", lambda: get(controller, "/config", **headers)[0] == http.client.OK)
    wrong = {**REMOTE, "Authorization": "Bearer nonsense"}
    assert get(controller, "/config", **wrong)[0] == http.client.UNAUTHORIZED
