"""The objects of an installation for given values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click
import pytest

from trellis.cli.main import trellis
from trellis.cli.process.catalog import import_all_settings
from trellis.cli.process.command import RunCommand
from trellis.controllers.nodes.provider_server.settings import NodeProviderServerSettings
from trellis.install.installation import NAMESPACES, build_manifests, build_namespace, order_for_removal
from trellis.install.permissions import ADVISOR, COMPONENT_RIGHTS, NODE_PROVIDER_SERVER, READ, rights_of
from trellis.install.roles import build_access
from trellis.install.tree.evaluation import Context
from trellis.install.values.declarations import ADVISOR as ADVISOR_PRESET
from trellis.install.values.declarations import DROP_IN, FULL, PRESETS, READ_ONLY
from trellis.install.values.loading import load_values
from trellis.runtime.manager.layers import environment_layer, flags_layer, load_process
from trellis.runtime.manager.settings import COMPONENTS
from trellis.runtime.settings.declarations import Settings

Manifest = dict[str, Any]
LEASES = "coordination.k8s.io"


def build(*assignments: str, namespace: str = "ops", **files: Any) -> list[Manifest]:
    values = load_values([files], assignments)
    return build_manifests(Context(values, name="trellis", namespace=namespace, service="test"))


def of_kind(manifests: Iterable[Manifest], kind: str) -> dict[str, Manifest]:
    return {it["metadata"]["name"]: it for it in manifests if it["kind"] == kind}


def deployments(*assignments: str, **files: Any) -> dict[str, Manifest]:
    return of_kind(build(*assignments, **files), "Deployment")


def containers(manifests: Iterable[Manifest]) -> list[Manifest]:
    return [
        container
        for manifest in manifests
        if manifest["kind"] == "Deployment"
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]


def container_of(name: str, *assignments: str, **files: Any) -> Manifest:
    [container] = deployments(*assignments, **files)[name]["spec"]["template"]["spec"]["containers"]
    return container  # type: ignore[no-any-return]


def rules_of(manifests: Iterable[Manifest], component: str) -> list[Manifest]:
    role = rights_of(component).role
    named = [it for it in manifests if it["kind"] in ("Role", "ClusterRole") and it["metadata"]["name"] == role]
    return [rule for it in named for rule in it["rules"]]


KWOK = "nodes.cloudProviders=[kwok]"
SERVER = (
    "nodeProviderServer.enabled=true",
    "nodeProviderServer.cloudProviders=[kwok, karpenter]",
    "nodeProviderServer.certificateSecret=machines",
)


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        (DROP_IN, ["vpa-recommender", "vpa-admission-controller", "vpa-updater"]),
        (FULL, ["trellis", "vpa-admission-controller"]),
        (READ_ONLY, ["trellis"]),
        (ADVISOR_PRESET, []),
    ],
)
def test_a_preset_has_its_deployments(preset: str, names: list[str]) -> None:
    assert list(deployments(f"preset={preset}")) == names


@pytest.mark.parametrize(
    ("assignments", "names"),
    [
        (["processes=single"], ["trellis"]),
        (["processes=separate"], ["vpa-recommender", "vpa-admission-controller", "vpa-updater", "trellis-hvpa",
                                  "trellis-buffers"]),
        (["processes=separate", KWOK], ["vpa-recommender", "vpa-admission-controller", "vpa-updater", "trellis-hvpa",
                                        "trellis-buffers", "trellis-nodes"]),
        (["components=[nodes]", KWOK], ["trellis"]),
        (["components=[recommender, hvpa]"], ["trellis"]),
        (["components=[admission]"], ["vpa-admission-controller"]),
        (["preset=drop-in", "processes=shared"], ["trellis", "vpa-admission-controller"]),
    ],
)  # fmt: skip
def test_components_and_processes_can_be_chosen(assignments: list[str], names: list[str]) -> None:
    assert list(deployments(*assignments)) == names


VARIANTS = [
    *([f"preset={preset}"] for preset in PRESETS),
    ["processes=single"],
    ["processes=separate"],
    ["preset=read-only", "processes=separate"],
    ["preset=drop-in", "watchedNamespaces=[shop, jobs]", "configPage=authenticated"],
    ["preset=drop-in", "watchedNamespaces=[shop]", "processes=single"],
    ["recommender.extraNames=[frugal]"],
    ["buffers.capacityBuffers=serve", "buffers.admissionDryRun=true", "recommender.useExternalMetrics=true"],
    ["buffers.capacityBuffers=translate", "processes=separate", "admission.registerWebhook=false"],
    ["admission.failurePolicyFail=true", "admission.certificates=files", "admission.certificateSecret=own"],
    ["preset=drop-in", *SERVER, "nodeProviderServer.clientNames=[cluster-autoscaler]"],
    ["preset=read-only", *SERVER, "configuration={updater: {minReplicas: 1}}"],
]


def load(settings: type[Settings], parameters: dict[str, Any]) -> None:
    from trellis.runtime.settings.loader import from_flags, load_settings

    load_settings(settings, from_flags(settings, parameters))


@pytest.mark.parametrize("assignments", VARIANTS, ids=" ".join)
def test_every_container_starts_with_flags_that_its_command_accepts(assignments: list[str]) -> None:
    types: dict[str, type[Settings]] = {**import_all_settings(), "node-provider-server": NodeProviderServerSettings}
    for container in containers(build(*assignments)):
        program, name, *rest = container["command"]
        assert (program, rest) == ("trellis", [])
        command = trellis.get_command(click.Context(trellis), name)
        assert command is not None
        arguments = [argument for argument in container["args"] if not argument.startswith("--config=")]
        parameters = command.make_context(name, list(arguments)).params
        if isinstance(command, RunCommand):
            load_process(types, flags_layer(types, parameters), environment_layer(types, {}))
        else:
            load(types["admission" if name == "admission-controller" else name], parameters)


@pytest.mark.parametrize("assignments", VARIANTS, ids=" ".join)
def test_every_pod_is_as_restricted_as_kubernetes_knows(assignments: list[str]) -> None:
    for deployment in deployments(*assignments).values():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= container.keys()


@pytest.mark.parametrize("assignments", VARIANTS, ids=" ".join)
def test_what_refers_to_another_object_finds_it(assignments: list[str]) -> None:
    manifests = build(*assignments)
    accounts = set(of_kind(manifests, "ServiceAccount"))
    for manifest in manifests:
        for subject in manifest.get("subjects", ()):
            assert subject["name"] in accounts
        if manifest["kind"] == "Deployment":
            spec = manifest["spec"]
            assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
            assert spec["template"]["spec"]["serviceAccountName"] in accounts
    pods = [it["spec"]["template"]["metadata"]["labels"] for it in of_kind(manifests, "Deployment").values()]
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "Service"):
        for manifest in of_kind(manifests, kind).values():
            spec = manifest["spec"]
            selector = spec.get("podSelector") or spec.get("selector", {})
            labels = selector.get("matchLabels", selector)
            assert sum(labels.items() <= pod.items() for pod in pods) == 1


@pytest.mark.parametrize("assignments", VARIANTS, ids=" ".join)
def test_objects_are_unique_and_come_in_an_order_that_one_apply_can_follow(assignments: list[str]) -> None:
    manifests = build(*assignments)
    keys = [(it["kind"], it["metadata"].get("namespace"), it["metadata"]["name"]) for it in manifests]
    assert len(set(keys)) == len(keys)
    kinds = [it["kind"] for it in manifests]
    order = ["CustomResourceDefinition", "ServiceAccount", "ClusterRole", "Deployment"]
    firsts = [kinds.index(kind) for kind in order if kind in kinds]
    assert firsts == sorted(firsts)


def test_a_component_has_the_rights_of_the_table() -> None:
    switches = {"recommender.useExternalMetrics": "true", "buffers.capacityBuffers": "serve"}
    manifests = build("processes=separate", KWOK, *(f"{key}={value}" for key, value in switches.items()))
    for rights in COMPONENT_RIGHTS:
        expected = [rule for it in build_access(rights, namespace="ops") for rule in it.get("rules", ())]
        roles = [it for it in manifests if it["metadata"]["name"].startswith(rights.role)]
        granted = [rule for it in roles for rule in it.get("rules", ())]
        # The installation creates the webhook configuration itself.
        missing = [rule for rule in expected if rule not in granted]
        assert missing in (
            [],
            [{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
              "verbs": ["create"]}],
        )  # fmt: skip
        assert [rule for rule in granted if rule not in expected] == []


def test_the_node_autoscaler_and_its_rights_need_a_provider() -> None:
    assert not [it for it in build() if it["metadata"]["name"].startswith("trellis-nodes")]
    assert ",-nodes" in container_of("trellis")["args"][0]
    assert ",-nodes" not in container_of("trellis", KWOK)["args"][0]
    roles = of_kind(build("nodes.cloudProviders=[karpenter]"), "ClusterRole")
    assert {name for name in roles if name.startswith("trellis-nodes")} == {"trellis-nodes", "trellis-nodes-karpenter"}


def test_rights_that_escalate_are_off_unless_their_switch_is_on() -> None:
    creates_pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}

    def granted(*assignments: str) -> bool:
        return any(creates_pods in it.get("rules", ()) for it in build(*assignments))

    assert not granted()
    assert granted("buffers.admissionDryRun=true")


def test_a_read_only_installation_writes_statuses_checkpoints_leases_and_events_only() -> None:
    manifests = build("preset=read-only", KWOK)
    writes = {
        (resource, verb)
        for it in manifests
        if it["kind"] in ("Role", "ClusterRole") and not it["metadata"]["name"].endswith(("-view", "-edit"))
        for rule in it["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in READ
    }
    assert {resource for resource, _ in writes} == {
        "verticalpodautoscalers/status",
        "hvpas/status",
        "verticalpodautoscalercheckpoints",
        "leases",
        "events",
    }
    assert not of_kind(manifests, "MutatingWebhookConfiguration")
    arguments = container_of("trellis", "preset=read-only", KWOK)["args"]
    assert [it for it in arguments if it.endswith("read-only=true")] == [
        "--updater.read-only=true",
        "--hvpa.read-only=true",
        "--buffers.read-only=true",
        "--nodes.read-only=true",
    ]


def test_the_advisor_is_a_cron_job_that_may_only_read() -> None:
    manifests = build("preset=advisor", "advisor.args=[--fail-over=20%]")
    assert {it["kind"] for it in manifests} == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CronJob"}
    verbs = {verb for it in manifests for rule in it.get("rules", ()) for verb in rule["verbs"]}
    assert verbs <= set(READ)
    pod = of_kind(manifests, "CronJob")[ADVISOR.account]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (container["command"], container["args"]) == (["trellis", "recommend"], ["--fail-over=20%"])
    assert pod["serviceAccountName"] == ADVISOR.account


def test_the_server_of_node_groups_is_off_and_has_its_own_account_certificates_and_service() -> None:
    name = NODE_PROVIDER_SERVER.account
    assert not [it for it in build() if it["metadata"]["name"].startswith(name)]
    manifests = build("preset=drop-in", *SERVER)
    deployment = of_kind(manifests, "Deployment")[name]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == name
    assert [volume["secret"]["secretName"] for volume in pod["volumes"]] == ["machines"]
    [container] = pod["containers"]
    assert "--client-ca-file=/etc/tls-certs/ca.crt" in container["args"]
    service = of_kind(manifests, "Service")[name]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["ports"][0]["port"] == 8086


def test_the_server_has_the_rights_of_its_providers_only() -> None:
    def roles(*assignments: str) -> set[str]:
        return {name for name in of_kind(build("preset=drop-in", *assignments), "ClusterRole") if "server" in name}

    name = NODE_PROVIDER_SERVER.role
    assert roles() == set()
    assert roles(*SERVER) == {name, f"{name}-kwok", f"{name}-karpenter"}
    assert roles("preset=read-only", *SERVER) == {name, f"{name}-karpenter"}


def test_further_recommenders_have_their_leases() -> None:
    manifests = build("preset=drop-in", "recommender.extraNames=[frugal, bold]")
    [role] = [it for it in manifests if it["kind"] == "Role" and it["metadata"]["name"] == "trellis-recommender"]
    named = [name for rule in role["rules"] for name in rule.get("resourceNames", ())]
    assert {"vpa-recommender-lease-frugal", "vpa-recommender-lease-bold"} <= set(named)
    [recommender] = [it for it in containers(manifests) if it["name"] == "recommender"]
    assert "--recommender-name=default,frugal,bold" in recommender["args"]


def test_an_installation_for_some_namespaces_has_roles_only() -> None:
    manifests = build("preset=drop-in", "watchedNamespaces=[shop, jobs]", "rbac.userRoles=false")
    assert not of_kind(manifests, "ClusterRole")
    assert not of_kind(manifests, "ClusterRoleBinding")
    places = {it["metadata"]["namespace"] for it in manifests if it["kind"] == "Role"}
    assert places == {"ops", "shop", "jobs"}
    assert all("--vpa-object-namespace=shop,jobs" in container["args"] for container in containers(manifests))


def test_the_configuration_is_mounted_where_the_flag_looks_for_it() -> None:
    manifests = build(configuration={"updater": {"minReplicas": 1}})
    [config_map] = of_kind(manifests, "ConfigMap").values()
    [(file, text)] = config_map["data"].items()
    assert text == (
        "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\nupdater:\n  minReplicas: 1\n"
    )
    for container in containers(manifests):
        [mount] = container["volumeMounts"]
        assert f"--config={mount['mountPath']}/{file}" == container["args"][0]
    # Components read it again when it changes, so a change of it does not replace pods.
    other = build(configuration={"updater": {"minReplicas": 2}})
    assert of_kind(manifests, "Deployment") == of_kind(other, "Deployment")


@pytest.mark.parametrize(
    ("assignments", "image"),
    [
        (["image.tag=9"], "trellis:9"),
        (["image.repository=reg:5000/a/b", "image.tag=9"], "reg:5000/a/b:9"),
        ([f"image.digest=sha256:{'0' * 64}", "image.tag=9"], f"trellis@sha256:{'0' * 64}"),
    ],
)
def test_a_digest_wins_over_a_tag(assignments: list[str], image: str) -> None:
    quoted = [it.replace("=9", "='9'") for it in assignments]
    assert {container["image"] for container in containers(build(*quoted))} == {image}


def test_the_namespace_is_created_unless_every_cluster_has_it() -> None:
    assert build_namespace(NAMESPACES[DROP_IN]) == []
    [namespace] = build_namespace(NAMESPACES[FULL])
    assert namespace["metadata"]["name"] == "trellis-system"


def test_the_webhook_is_removed_first_and_definitions_stay() -> None:
    removed = order_for_removal([*build_namespace("ops"), *build()])
    kinds = [it["kind"] for it in removed]
    assert kinds[0] == "MutatingWebhookConfiguration"
    assert kinds.index("Deployment") < kinds.index("ServiceAccount")
    assert {"CustomResourceDefinition", "Namespace"}.isdisjoint(kinds)


def test_definitions_can_be_left_out_and_are_kept_by_helm() -> None:
    definitions = of_kind(build(), "CustomResourceDefinition")
    assert len(definitions) == 4
    assert {it["metadata"]["annotations"]["helm.sh/resource-policy"] for it in definitions.values()} == {"keep"}
    assert not of_kind(build("crds.install=false"), "CustomResourceDefinition")


def test_extra_objects_are_installed_as_written() -> None:
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"a": "{{ b }}"}}
    assert build(extraObjects=[extra])[-1] == extra


@pytest.mark.parametrize("processes", ["separate", "shared", "single"])
def test_a_service_monitor_finds_the_metrics_of_every_deployment_once(processes: str) -> None:
    manifests = build(f"processes={processes}", "serviceMonitor.enabled=true", "serviceMonitor.labels={team: a}")
    [monitor] = of_kind(manifests, "ServiceMonitor").values()
    assert monitor["metadata"]["labels"]["team"] == "a"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["ops"]}
    [endpoint] = monitor["spec"]["endpoints"]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [it for it in of_kind(manifests, "Service").values() if selected <= it["metadata"]["labels"].items()]
    scraped = {it["spec"]["selector"]["app"]: port for it in services for port in it["spec"]["ports"]
               if port["name"] == endpoint["port"]}  # fmt: skip
    for name, deployment in of_kind(manifests, "Deployment").items():
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports[scraped[name]["targetPort"]] == scraped[name]["port"]
    assert scraped.keys() == of_kind(manifests, "Deployment").keys()


def test_metrics_of_replicas_that_are_not_ready_are_scraped_too() -> None:
    services = of_kind(build("serviceMonitor.enabled=true"), "Service")
    assert services["trellis-metrics"]["spec"]["publishNotReadyAddresses"] is True
    assert services["trellis-metrics"]["spec"]["clusterIP"] == "None"
    assert "trellis-metrics" not in of_kind(build("podMonitor.enabled=true"), "Service")


def test_every_component_can_run_alone() -> None:
    for component in COMPONENTS:
        [container] = containers(build("processes=separate", f"components=[{component}]", KWOK))
        assert container["ports"][0]["name"] == "prometheus"
    assert os.environ.get("TRELLIS_CONFIG") is None
