"""What a target selects, and what is said of one that cannot be used."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.meta import KubeObject
from trellis.base.errors import InternalError
from trellis.base.selectors import Selector, parse_selector
from trellis.core.cluster.owners import Owners, ScaleInfo, TargetRef
from trellis.core.cluster.target_problems import (
    NO_TARGET_REF,
    TARGET_NOT_FOUND,
    TARGET_NOT_TOPMOST,
    TARGET_OWNERS_UNKNOWN,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_SELECTS_NOTHING,
    TARGET_UNREACHABLE,
    TargetProblem,
    build_target_problem,
)
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.kube import resources
from trellis.kube.resources import Resource

WEB = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}
SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
WHOLE: tuple[Resource[Any], ...] = (
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.DAEMON_SETS,
    resources.JOBS,
    resources.CRON_JOBS,
    resources.REPLICATION_CONTROLLERS,
)
IN_PART: tuple[Resource[Any], ...] = (
    resources.OBSERVED_DEPLOYMENTS,
    resources.OBSERVED_REPLICA_SETS,
    resources.OBSERVED_STATEFUL_SETS,
    resources.OBSERVED_DAEMON_SETS,
    resources.OBSERVED_JOBS,
    resources.OBSERVED_CRON_JOBS,
    resources.OBSERVED_REPLICATION_CONTROLLERS,
)


def target(kind: str, api_version: str = "apps/v1") -> TargetRef:
    return TargetRef("shop", api_version, kind, "web")


def owners(*documents: tuple[Resource[Any], dict[str, Any]], controller: dict[str, Any] | None = None) -> Owners:
    def read(resource: Resource[Any], spec: dict[str, Any]) -> Any:
        metadata = {"name": "web", "namespace": "shop", "ownerReferences": [controller] if controller else []}
        return decode_object(msgspec.json.encode({"metadata": metadata, "spec": spec}), resource.struct)

    objects = {resource.kind: read(resource, spec) for resource, spec in documents}
    return Owners({kind: lambda *_, decoded=object_: decoded for kind, object_ in objects.items()}, {})


def scaled(answer: ScaleInfo | None, kind: str = "Rollout") -> Owners:
    return Owners({}, {target(kind): answer} if answer else {})


def problem(resolved: Selector | TargetProblem) -> TargetProblem:
    assert isinstance(resolved, TargetProblem)
    assert resolved.message
    return resolved


@pytest.mark.req("CR-20")
@pytest.mark.parametrize("resource", [r for r in (*WHOLE, *IN_PART) if r.kind in SELECTING])
def test_a_well_known_kind_selects_by_the_selector_in_its_spec(resource: Resource[Any]) -> None:
    known = owners((resource, {"selector": WEB, "template": TEMPLATE}))
    assert resolve_selector(target(resource.kind), known) == parse_selector("app=web,tier in (a,b)")


@pytest.mark.req("CR-20")
@pytest.mark.parametrize("resource", [r for r in (*WHOLE, *IN_PART) if r.kind == "ReplicationController"])
def test_a_replication_controller_selects_by_a_plain_map(resource: Resource[Any]) -> None:
    assert resolve_selector(target(resource.kind), owners((resource, {"selector": {"a": "b"}}))) == parse_selector(
        "a=b"
    )


@pytest.mark.parametrize("resource", [r for r in (*WHOLE, *IN_PART) if r.kind == "CronJob"])
def test_a_cron_job_selects_by_the_labels_of_its_template_or_by_ownership_alone(resource: Resource[Any]) -> None:
    labelled = owners((resource, {"jobTemplate": {"spec": {"template": TEMPLATE}}}))
    assert resolve_selector(target("CronJob"), labelled) == parse_selector("app=web")
    assert resolve_selector(target("CronJob"), owners((resource, {"jobTemplate": {}}))) == Selector.everything()


@pytest.mark.parametrize("api_version", ["", "apps/v1", "apps/v1beta1", "extensions/v1beta1", "nonsense"])
def test_the_api_version_of_a_well_known_kind_does_not_matter(api_version: str) -> None:
    known = owners((resources.OBSERVED_DEPLOYMENTS, {"selector": WEB}))
    assert isinstance(resolve_selector(target("Deployment", api_version), known), Selector)


@pytest.mark.req("CR-20", "CR-21")
def test_any_other_kind_selects_by_what_its_scale_says() -> None:
    selector = resolve_selector(target("Rollout"), scaled(ScaleInfo("app=web,tier notin (c)")))
    assert selector == parse_selector("app=web,tier notin (c)")


def test_a_kind_of_another_group_selects_by_its_scale_though_it_is_called_like_a_well_known_one() -> None:
    theirs = target("StatefulSet", "apps.kruise.io/v1beta1")
    ours = owners((resources.OBSERVED_STATEFUL_SETS, {"selector": WEB}))
    assert problem(resolve_selector(theirs, ours)).reason is TARGET_UNREACHABLE
    assert resolve_selector(theirs, Owners({}, {theirs: ScaleInfo("app=theirs")})) == parse_selector("app=theirs")


@pytest.mark.parametrize("given", [None, TargetRef("shop", "", "", ""), TargetRef("shop", "apps/v1", "Deployment", "")])
def test_an_object_without_a_target_is_reported(given: TargetRef | None) -> None:
    target_problem = problem(resolve_selector(given, Owners({}, {})))
    assert target_problem == TargetProblem(NO_TARGET_REF, "Cannot read targetRef. Reason: targetRef not defined")


@pytest.mark.parametrize("kind", [*SELECTING, "CronJob", "ReplicationController"])
def test_a_target_that_does_not_exist_is_named(kind: str) -> None:
    target_problem = problem(resolve_selector(target(kind), Owners({kind: lambda *_: None}, {})))
    assert target_problem.reason is TARGET_NOT_FOUND
    assert target_problem.message == f"Cannot read targetRef. Reason: {kind} shop/web does not exist"


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (resources.OBSERVED_DEPLOYMENTS, {}),
        (resources.OBSERVED_DEPLOYMENTS, {"selector": {}}),
        (resources.OBSERVED_REPLICATION_CONTROLLERS, {"selector": {}}),
    ],
)
def test_a_workload_that_selects_nothing_or_everything_is_refused(resource: Resource[Any], spec: Any) -> None:
    assert problem(resolve_selector(target(resource.kind), owners((resource, spec)))).reason is TARGET_SELECTS_NOTHING


def test_a_scale_without_a_selector_is_refused_in_the_words_people_search_for() -> None:
    target_problem = problem(resolve_selector(target("Rollout"), scaled(ScaleInfo(""))))
    assert target_problem.reason is TARGET_SELECTS_NOTHING
    assert target_problem.message.endswith("resource shop/web has an empty selector for scale sub-resource")


@pytest.mark.parametrize("selector", ["app in", "=", "a=b,,", "a b"])
def test_an_unreadable_selector_is_quoted(selector: str) -> None:
    target_problem = problem(resolve_selector(target("Rollout"), scaled(ScaleInfo(selector))))
    assert target_problem.reason is TARGET_SELECTOR_UNREADABLE
    assert "Rollout shop/web" in target_problem.message


def test_so_is_one_in_a_spec() -> None:
    bad = {"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}
    target_problem = problem(resolve_selector(target("Deployment"), owners((resources.OBSERVED_DEPLOYMENTS, bad))))
    assert target_problem.reason is TARGET_SELECTOR_UNREADABLE
    assert '"Near"' in target_problem.message


def test_what_is_wrong_with_a_scale_is_passed_on() -> None:
    wrong = build_target_problem(TARGET_UNREACHABLE, "no route to host")
    assert resolve_selector(target("Rollout"), scaled(ScaleInfo(problem=wrong))) == wrong
    assert problem(resolve_selector(target("Rollout"), scaled(None))).reason is TARGET_UNREACHABLE


def test_a_target_below_another_is_refused_with_the_right_one() -> None:
    parent = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "controller": True}
    known = owners((resources.OBSERVED_REPLICA_SETS, {"selector": WEB}), controller=parent)
    whole = Owners(
        {"ReplicaSet": lambda *_: known.find(target("ReplicaSet")), "Deployment": lambda *_: KubeObject()}, {}
    )
    target_problem = problem(resolve_selector(target("ReplicaSet"), whole))
    assert target_problem.reason is TARGET_NOT_TOPMOST
    assert target_problem.message == (
        "The target apps/v1.ReplicaSet/web has a parent controller but it should point to a topmost well-known or "
        "scalable controller: apps/v1.Deployment/shop"
    )


@pytest.mark.parametrize(
    ("controller", "why"),
    [
        ({"kind": "ReplicaSet", "name": "web", "controller": True}, "cycle detected in ownership chain"),
        ({"kind": "Deployment", "name": "gone", "controller": True}, "Deployment shop/gone does not exist"),
        ({"kind": "Fleet", "name": "f", "controller": True}, "scale subresource of .Fleet/f has not been read yet"),
    ],
)
def test_a_target_whose_owners_cannot_be_found_out_is_not_used(controller: dict[str, Any], why: str) -> None:
    known = owners((resources.OBSERVED_REPLICA_SETS, {"selector": WEB}), controller=controller)
    target_problem = problem(resolve_selector(target("ReplicaSet"), known))
    assert target_problem.reason is TARGET_OWNERS_UNKNOWN
    assert target_problem.message.startswith("Error checking if target apps/v1.ReplicaSet/web is a topmost")
    assert target_problem.message.endswith(why)


def test_an_owner_that_does_not_control_is_none() -> None:
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "name": "web"}
    known = owners((resources.OBSERVED_DEPLOYMENTS, {"selector": WEB}), controller=owner)
    assert isinstance(resolve_selector(target("Deployment"), known), Selector)


def test_a_workload_read_without_its_spec_is_our_own_mistake() -> None:
    with pytest.raises(InternalError, match="KubeObject"):
        resolve_selector(target("Deployment"), Owners({"Deployment": lambda *_: KubeObject()}, {}))
