"""Our validator and the CRDs, judged by the API server's own code, never disagree where both speak.

Random objects go to both. What the CRD refuses the validator refuses too, so that `trellis check` never promises too
much; and what the validator calls a rule of the CRD is one, so that it holds with no webhook running.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle.answers import Gvk
from support.oracles.kubernetes import Oracle
from trellis.api.registry import BUFFER, HVPA, VPA, Kind
from trellis.api.schema.crds import build_crd
from trellis.api.validation import validate
from trellis.testing.objects import flawed_specs, shaped_specs, valid_specs

KINDS = (VPA, HVPA, BUFFER)
BATCH = 10
# Nothing is shrunk: an object has one flaw at most, the message shows it, and shrinking batches takes minutes.
RELAXED = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate)
)


def gvk(kind: Kind) -> Gvk:
    return Gvk(kind.group, kind.version, kind.name)


def document(kind: Kind, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "x", "namespace": "y"},
        "spec": spec,
    }


def compare(oracle: Oracle, kind: Kind, specs: Iterable[Any]) -> None:
    documents = [document(kind, spec) for spec in specs]
    for written, verdict in zip(documents, oracle.validate_all(gvk(kind), documents), strict=True):
        problems = [problem for problem in validate(kind, written) if problem.is_error]
        if not verdict.ok:
            assert problems, f"only the CRD refuses {written}: {verdict.why}"
        elif verdict.pruned:
            result = {problem.path for problem in problems if problem.reason.code == "UnknownField"}
            assert len(result) >= len(verdict.pruned), f"pruned without a word: {verdict.pruned}"
        ours = [str(problem) for problem in problems if problem.in_crd]
        if ours:
            assert not verdict.ok, f"the CRD accepts {written}, the validator says {ours}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("specs", [shaped_specs, valid_specs, flawed_specs], ids=["shaped", "valid", "flawed"])
@pytest.mark.req("SB-09", "CR-05", "AR-26", "BF-20", "HV-35")
def test_validator_and_crd_agree(oracle: Oracle, kind: Kind, specs: Any) -> None:
    assert oracle.load_crd(build_crd(kind)).ok

    @RELAXED
    @given(st.lists(specs(kind), min_size=BATCH, max_size=BATCH))
    def agree(batch: list[Any]) -> None:
        compare(oracle, kind, batch)

    agree()
