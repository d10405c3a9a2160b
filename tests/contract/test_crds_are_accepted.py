"""The API server's own code takes our CRDs: structural, compiled, within the cost limits."""

from __future__ import annotations

import pytest

from support.oracles.kubernetes import Oracle
from trellis.api.registry import BUFFER, HVPA, KINDS, VPA, Kind
from trellis.api.schema.crds import build_crd


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_crd_is_accepted_without_errors_or_warnings(oracle: Oracle, kind: Kind) -> None:
    decision = oracle.load_crd(build_crd(kind))
    assert decision.ok, decision.why
    assert not decision.warnings


@pytest.mark.parametrize("kind", [VPA, HVPA, BUFFER], ids=lambda kind: kind.name)
def test_every_rule_stays_far_below_the_cost_limit(oracle: Oracle, kind: Kind) -> None:
    # A rule at the limit is one edit away from a CRD that no API server takes: half of it is for later rules.
    limits = oracle.about()
    decision = oracle.load_crd(build_crd(kind))
    assert decision.costs
    assert max(cost.cost for cost in decision.costs) <= limits.rule_cost_limit / 2
    assert sum(cost.cost for cost in decision.costs) <= limits.schema_cost_limit / 2
