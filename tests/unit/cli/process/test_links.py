"""A component that observes another of its process looks where the other is, unless it is told otherwise."""

from __future__ import annotations

from typing import Any

from trellis.cli.process.catalog import import_all_settings
from trellis.cli.process.links import link_components
from trellis.runtime.manager.layers import flags_layer, load_process


def link(**flags: Any) -> dict[str, Any]:
    types = import_all_settings()
    return link_components(load_process(types, flags_layer(types, flags)))


def test_buffers_look_at_the_lease_of_the_node_autoscaler_beside_them() -> None:
    assert link(leader_elect_resource_namespace="trellis")["buffers"].headroom.nodes_lease == "trellis/trellis-nodes"
    given = link(leader_elect_resource_namespace="trellis", buffers_nodes_lease="other/nodes")
    assert given["buffers"].headroom.nodes_lease == "other/nodes"


def test_the_updater_looks_at_the_status_lease_of_the_admission_controller_beside_it() -> None:
    checked = link(admission_namespace="trellis", admission_status_lease_name="webhook")["updater"].admission
    assert checked.admission_controller_status_lease_name == "webhook"
    assert checked.admission_controller_status_lease_namespace == "trellis"
    alone = link(components=("updater",), updater_admission_controller_status_lease_name="other")["updater"].admission
    assert alone.admission_controller_status_lease_name == "other"
    assert alone.admission_controller_status_lease_namespace == "kube-system"


def test_the_recommender_writes_one_status_at_a_time_beside_the_admission_controller() -> None:
    assert link()["recommender"].loop.update_worker_count == 1
    assert link(recommender_update_worker_count=20)["recommender"].loop.update_worker_count == 20
    assert link(components=("recommender", "updater"))["recommender"].loop.update_worker_count == 10
