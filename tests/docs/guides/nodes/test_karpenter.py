"""The guide of the provider karpenter names labels, flags and reasons as the code has them."""

from __future__ import annotations

from pathlib import Path

import yaml

from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL
from trellis.api.registry import CLAIM_NODE_GROUP
from trellis.api.validation import validate
from trellis.core.nodes.state.upcoming_nodes import INSTANCE_OVERDUE
from trellis.providers.node_claims import instances
from trellis.providers.node_claims.instances import REPORT_FINALIZER
from trellis.providers.node_claims.settings import CLAIM_CONFIG_MAP

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "docs" / "guides" / "nodes-karpenter.md").read_text()


def test_labels_and_reasons_are_those_of_the_code() -> None:
    reasons = (
        instances.CLAIM_WITHOUT_MACHINE,
        instances.CLAIM_NOT_LAUNCHED,
        instances.CLAIM_NOT_REGISTERED,
        instances.CLAIM_IGNORED,
        INSTANCE_OVERDUE,
    )
    assert all(f"`{reason.code}`" in TEXT for reason in reasons)
    assert all(f"`{name}`" in TEXT for name in (CLAIM_GROUP_LABEL, REPORT_FINALIZER))
    assert f"`{CLAIM_CONFIG_MAP.partition('/')[2]}`" in TEXT


def test_the_group_in_the_guide_is_valid() -> None:
    blocks = (block.partition("```")[0] for block in TEXT.split("```yaml\n")[1:])
    documents = [yaml.safe_load(block) for block in blocks]
    [group] = [document for document in documents if document.get("kind") == CLAIM_NODE_GROUP.name]
    assert validate(CLAIM_NODE_GROUP, group) == []
