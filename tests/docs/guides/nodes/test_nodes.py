"""The guide to nodes says what the autoscaler does: its reasons, flags and metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

import pages
from trellis.core.nodes.scale_down.drainability import DO_NOT_DISRUPT, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT
from trellis.core.nodes.scale_down.evictions import DAEMON_SET_EVICTION
from trellis.core.nodes.state.readiness import LEAVING_TAINT, UNNEEDED_TAINT
from trellis.core.nodes.state.transient_taints import STARTUP_TAINT_PREFIXES, STATUS_TAINT_PREFIX

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE = (DOCS / "guides" / "nodes.md").read_text()
REFERENCE = (DOCS / "reference" / "nodes-controller.md").read_text()
BUFFERS = (DOCS / "reference" / "buffers-controller.md").read_text()


def test_every_reason_it_names_is_one() -> None:
    named = set(re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE))
    assert len(named) > 10
    assert named - set(pages.find_reasons()) == set()


def test_every_flag_and_metric_it_names_is_one() -> None:
    flags = set(re.findall(r"`(?:trellis nodes )?(--[a-z-]+)", PAGE))
    assert len(flags) > 10
    assert {flag for flag in flags if f"`{flag}`" not in REFERENCE} == set()
    assert "`--translate`" in BUFFERS
    metrics = re.findall(r"`(trellis_nodes_\w+)`", PAGE)
    assert metrics
    for name in metrics:
        assert f"| `{name}` |" in REFERENCE, name


def test_taints_and_annotations_have_the_names_of_the_code() -> None:
    taints = (LEAVING_TAINT, UNNEEDED_TAINT, *STARTUP_TAINT_PREFIXES, STATUS_TAINT_PREFIX)
    for name in (*taints, DO_NOT_DISRUPT, SAFE_TO_EVICT, SAFE_LOCAL_VOLUMES, DAEMON_SET_EVICTION):
        assert f"`{name}" in PAGE


def test_the_patch_for_those_whose_nodes_others_manage_adds_a_flag_to_the_command_that_is_shipped() -> None:
    [patch] = [json.loads(text) for text in re.findall(r"'(\[\{.*?\}\])'", PAGE)]
    [step] = patch
    manifest = (DOCS.parent / "deploy" / "buffers.yaml").read_text()
    [value] = [document for document in yaml.safe_load_all(manifest) if document["kind"] == "Deployment"]
    *path, last = step["path"].strip("/").split("/")
    for key in path:
        value = value[int(key)] if isinstance(value, list) else value[key]
    assert (step["op"], last) == ("add", "-")
    assert value[:2] == ["trellis", "buffers"]
    assert f"`{step['value']}`" in BUFFERS
