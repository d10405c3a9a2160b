"""A changed file is applied as far as that is safe; a bad one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import virtual_time
from trellis.api.kube.meta import ObjectReference
from trellis.base.errors import InvalidInput
from trellis.base.reasons import Reason
from trellis.cli.process.catalog import import_all_settings
from trellis.cli.process.links import link_process
from trellis.runtime.manager.configuration.file import read_configuration
from trellis.runtime.manager.configuration.metrics import CONFIGURATION_METRICS
from trellis.runtime.manager.configuration.reload import (
    POLL_SECONDS,
    ConfigurationReloader,
    RunningConfiguration,
    SettingsSource,
)
from trellis.runtime.manager.configuration.rendering import render_configuration
from trellis.runtime.manager.configuration.reports import ReloadReports, find_own_object
from trellis.runtime.manager.layers import LoadedProcess, flags_layer, load_process
from trellis.runtime.manager.supervisor import ManagedComponent, OnRefused
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.logs import LogSettings
from trellis.runtime.telemetry.metrics import Metrics

TYPES = import_all_settings()
UNUSABLE = 77
PATH = Path("/etc/trellis/config.yaml")
HEAD = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\ncomponents: [drop-in]\n"


class Component:
    """Takes other settings, or refuses them."""

    def __init__(self) -> None:
        self.settings: list[Any] = []
        self.refuses: str = ""

    def reconfigure(self, managed: ManagedComponent, on_refused: OnRefused) -> None:
        if self.refuses:
            on_refused(InvalidInput("x", self.refuses), self.former)
        else:
            self.settings.append(managed.settings)

    former: ManagedComponent


class World:
    """A process of three components, and its file."""

    def __init__(self, text: str = "", **flags: Any) -> None:
        self.text: bytes | OSError = (HEAD + text).encode()
        self.flags = flags
        self.source = SettingsSource(load=self._load, link=link_process, manage=_manage, path=PATH, read=self._read)
        assert isinstance(self.text, bytes)
        self.configuration = RunningConfiguration(self.source, self.text)
        self.components = {name: Component() for name in self.configuration.effective.components}
        for name, component in self.components.items():
            component.former = _manage(name, self.configuration.effective.components[name].settings)
        self.metrics = Metrics(CONFIGURATION_METRICS, about_process=False)
        self.events: list[tuple[str, str, str]] = []
        self.logs: list[LogSettings] = []

    def write(self, text: str) -> None:
        self.text = (HEAD + text).encode()

    def metric(self, line: str) -> float:
        lines = self.metrics.format_text().decode().splitlines()
        return next((float(value) for name, _, value in (x.rpartition(" ") for x in lines) if name == line), -1.0)

    def run(self, play: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            stop = Shutdown()
            reports = ReloadReports(self.metrics, self._record, ObjectReference("Pod", "kube-system", "p"), lambda: 7.0)
            reloader = ConfigurationReloader(self.configuration, self.components, reports, self.logs.append)
            running = asyncio.create_task(reloader.run(stop))
            await play()
            stop.request("the test is over")
            await running

        virtual_time.run(main())

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        self.events.append((about.name, reason.code, message))

    def _read(self, _path: Path) -> bytes:
        if isinstance(self.text, OSError):
            raise self.text
        return self.text

    def _load(self, text: bytes | None, running: Sequence[str] | None) -> LoadedProcess:
        file = read_configuration(TYPES, PATH, text)
        loaded = load_process(TYPES, flags_layer(TYPES, self.flags), file.layer, running=running)
        return LoadedProcess(loaded.process, loaded.components, file.warnings)


def _manage(name: str, settings: Any) -> ManagedComponent:
    if name == "updater" and settings.disruption.min_replicas == UNUSABLE:
        raise InvalidInput(UNUSABLE, "cannot be used")
    return ManagedComponent(name=name, settings=settings, metrics=(), followed=(), open=lambda _metrics: None)  # type: ignore[arg-type, return-value]


async def next_look() -> None:
    await asyncio.sleep(POLL_SECONDS + 0.1)


def test_only_the_component_whose_settings_change_restarts() -> None:
    world = World()

    async def play() -> None:
        await next_look()
        assert not world.events, "the file is as it was"
        world.write("updater: {minReplicas: 1}\n")
        await next_look()
        assert [settings.disruption.min_replicas for settings in world.components["updater"].settings] == [1]
        assert not world.components["recommender"].settings
        assert world.events == [("p", "ConfigurationReloaded", f"{PATH}: restarts updater")]
        assert world.configuration.warnings == ()
        assert world.metric('trellis_configuration_reloads_total{result="success"}') == 1
        await next_look()
        assert len(world.components["updater"].settings) == 1

    world.run(play)


def test_a_shared_setting_restarts_every_component_but_admission_which_waits_for_a_restart() -> None:
    world = World()

    async def play() -> None:
        world.write("readOnly: true\n")
        await next_look()
        assert all(world.components[name].settings[0].access.read_only for name in ("recommender", "updater"))
        assert not world.components["admission"].settings
        assert world.metric('trellis_configuration_pending_restart{setting="admission.readOnly"}') == 1
        text = render_configuration(world.configuration.effective, world.configuration.pending)
        assert f"\nreadOnly: true  # {PATH}, line 4\n" in text
        assert "\n  readOnly: false  # default; the file has true, which needs a restart of the process\n" in text
        assert "needs a restart of the process for admission.readOnly" in world.events[0][2]
        world.write("readOnly: false\n")
        await next_look()
        assert world.metric('trellis_configuration_pending_restart{setting="admission.readOnly"}') == -1

    world.run(play)


def test_what_needs_a_restart_of_the_process_keeps_its_value() -> None:
    world = World("address: :1\n")

    async def play() -> None:
        world.text = (HEAD.replace("drop-in", "all") + "address: :2\nadmission: {port: 9}\nhvpa: {}\n").encode()
        await next_look()
        effective = world.configuration.effective
        assert effective.process.settings.health.address == ":1"
        assert effective.process.settings.choice.components == ("drop-in",)
        assert effective.components["admission"].settings.reviews.port == 8000
        pending = {change.field for change in world.configuration.pending}
        assert pending == {"address", "components", "admission.port"}
        assert not any(component.settings for component in world.components.values())

    world.run(play)


def test_what_a_file_says_without_effect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    async def play() -> None:
        world.write("nodes: {scanInterval: 5s}\n")
        await next_look()
        assert len(world.configuration.warnings) == 1
        assert world.metric("trellis_configuration_last_reload_successful") == 1

    with caplog.at_level("WARNING"):
        world.run(play)
    assert "a part of the configuration has no effect" in caplog.text


def test_the_log_level_is_applied_at_once_and_restarts_nothing() -> None:
    world = World()

    async def play() -> None:
        world.write("v: 2\n")
        await next_look()
        assert [logs.verbosity for logs in world.logs] == [2]
        assert not any(component.settings for component in world.components.values())
        assert world.events[0][2] == f"{PATH}: restarts no component"

    world.run(play)


def test_a_bad_file_keeps_the_settings_and_is_reported_once() -> None:
    world = World("updater: {minReplicas: 1}\n")

    async def play() -> None:
        before = world.configuration.hash
        world.write("readOnly: true\nupdater: {minReplica: 1}\n")
        for _ in range(3):
            await next_look()
        assert world.configuration.hash == before
        assert not any(component.settings for component in world.components.values())
        [(name, reason, message)] = world.events
        assert (name, reason) == ("p", "ConfigurationRefused")
        assert message.startswith(f"{PATH} is not applied: line 5: ")
        assert 'line 5: updater.minReplica: Unknown field: there is no field "minReplica" here' in message
        assert world.metric('trellis_configuration_reloads_total{result="failure"}') == 1
        assert world.metric("trellis_configuration_last_reload_successful") == 0
        world.write("updater: {minReplicas: 1}\n")
        await next_look()
        assert world.metric("trellis_configuration_last_reload_successful") == 1
        assert not world.components["updater"].settings, "nothing has changed"

    world.run(play)


def test_settings_that_no_component_can_be_made_of_change_nothing() -> None:
    world = World()

    async def play() -> None:
        before = world.configuration.hash
        world.write(f"readOnly: true\nupdater: {{minReplicas: {UNUSABLE}}}\n")
        await next_look()
        assert world.configuration.hash == before
        assert not any(component.settings for component in world.components.values())
        assert world.events[0][1:] == ("ConfigurationRefused", f"{PATH} is not applied: 77: cannot be used")

    world.run(play)


def test_a_file_that_cannot_be_read_keeps_the_settings() -> None:
    world = World()

    async def play() -> None:
        good, world.text = world.text, FileNotFoundError(2, "No such file or directory")
        for _ in range(3):
            await next_look()
        assert [message for _, _, message in world.events] == [
            f"{PATH} is not applied: cannot be read: No such file or directory"
        ]
        world.text = good
        await next_look()
        assert world.metric("trellis_configuration_last_reload_successful") == 1

    world.run(play)


def test_a_component_that_refuses_its_settings_at_its_start_has_the_former_ones_again() -> None:
    world = World()

    async def play() -> None:
        before = world.configuration.hash
        world.components["updater"].refuses = "is no plug-in"
        world.write("updater: {minReplicas: 1}\n")
        await next_look()
        assert world.configuration.hash == before
        assert world.events[-1][1:] == (
            "ConfigurationRefused",
            f'{PATH} is not applied: updater refuses its settings: "x": is no plug-in',
        )
        assert world.metric("trellis_configuration_last_reload_successful") == 0
        assert world.metric(f'trellis_configuration_info{{hash="{before}"}}') == 1

    world.run(play)


def test_flags_win_over_a_changed_file() -> None:
    world = World(updater_min_replicas="5")

    async def play() -> None:
        world.write("updater: {minReplicas: 1}\n")
        await next_look()
        assert not world.components["updater"].settings
        text = render_configuration(world.configuration.effective)
        assert "  minReplicas: 5  # flag --updater.min-replicas\n" in text

    world.run(play)


def test_what_follows_from_another_component_follows_what_that_has_and_not_what_it_will_have() -> None:
    world = World()

    async def play() -> None:
        world.write("admission: {statusLeaseName: other}\n")
        await next_look()
        updater = world.configuration.effective.components["updater"].settings
        assert updater.admission.admission_controller_status_lease_name == "vpa-admission-controller"
        assert not world.components["updater"].settings

    world.run(play)


def test_a_setting_that_is_removed_from_the_file_needs_a_restart_like_one_that_changes() -> None:
    world = World("admission: {registerByUrl: true, webhookAddress: 'https://10.0.0.1'}\n")

    async def play() -> None:
        world.write("")
        await next_look()
        assert world.metric("trellis_configuration_last_reload_successful") == 1
        assert {change.field for change in world.configuration.pending} == {
            "admission.registerByUrl",
            "admission.webhookAddress",
        }

    world.run(play)


def test_secrets_are_in_no_page_and_no_hash() -> None:
    world, other = (World(recommender_username="jane", recommender_password=word) for word in ("s3cret", "b"))
    text = render_configuration(world.configuration.effective)
    assert "s3cret" not in text
    assert "  # password: (hidden)  # flag --recommender.password\n" in text
    assert world.configuration.hash == other.configuration.hash
    address = World(recommender_prometheus_address="https://jane:s3cret@prometheus")
    text = render_configuration(address.configuration.effective)
    assert '  prometheusAddress: "https://jane:(hidden)@prometheus"  # flag' in text


def test_events_are_about_the_pod_if_it_is_known_and_else_about_the_lease() -> None:
    pod = find_own_object({"POD_NAME": "t-0", "NAMESPACE": "trellis", "POD_UID": "u"}, "kube-system", "vpa-updater")
    assert (pod.kind, pod.namespace, pod.name, pod.uid) == ("Pod", "trellis", "t-0", "u")
    lease = find_own_object({}, "kube-system", "vpa-updater")
    assert (lease.kind, lease.namespace, lease.name) == ("Lease", "kube-system", "vpa-updater")
