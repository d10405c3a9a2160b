"""What the HPA and the VPA that an Hvpa owns say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.builders.manifests import bucket, hvpa
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.resolve import resolve_hvpa
from trellis.core.hvpa.autoscalers import build_hpa_spec, find_hpa


def owned_hpa(most: int, **template: Any) -> dict[str, Any]:
    document = hvpa(bucket((1, most), ("0", "4"), ("0", "4G")), hpa={"template": {"spec": template}})
    read = msgspec.convert(document, Hvpa)
    return build_hpa_spec(read, resolve_hvpa(read))


@pytest.mark.parametrize(
    ("version", "is_its"),
    [
        ("autoscaling.x-k8s.io/v1alpha1", True),
        ("autoscaling.x-k8s.io/v1", True),
        ("", True),
        ("autoscaling.k8s.io/v1alpha1", False),
    ],
)
def test_an_hpa_on_another_projects_hvpa_of_the_same_name_is_none_of_its(version: str, is_its: bool) -> None:
    read = msgspec.convert(hvpa(bucket((1, 8), ("0", "4"), ("0", "4G"))), Hvpa)
    reference = {"apiVersion": version, "kind": "Hvpa", "name": read.metadata.name}
    hpa = convert_object({"spec": {"scaleTargetRef": reference, "maxReplicas": 8}}, HorizontalPodAutoscaler)
    assert find_hpa(read, [hpa]) is (hpa if is_its else None)


@pytest.mark.parametrize(("most", "expected"), [(8, 16), (2**31 - 1, 2**31 - 1)])
def test_an_hpa_may_ask_for_more_than_the_buckets_have_as_far_as_a_count_goes(most: int, expected: int) -> None:
    assert owned_hpa(most)["maxReplicas"] == expected
    assert owned_hpa(most, maxReplicas=most)["maxReplicas"] == most
