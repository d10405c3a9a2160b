"""What the HPA and the VPA that an Hvpa owns say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manifests import bucket, hvpa
from trellis.api.hvpa import Hvpa
from trellis.api.resolve import resolve_hvpa
from trellis.core.hvpa.sources import hpa_spec


def owned_hpa(most: int, **template: Any) -> dict[str, Any]:
    document = hvpa(bucket((1, most), ("0", "4"), ("0", "4G")), hpa={"template": {"spec": template}})
    read = msgspec.convert(document, Hvpa)
    return hpa_spec(read, resolve_hvpa(read))


@pytest.mark.parametrize(("most", "expected"), [(8, 16), (2**31 - 1, 2**31 - 1)])
def test_an_hpa_may_ask_for_more_than_the_buckets_have_as_far_as_a_count_goes(most: int, expected: int) -> None:
    assert owned_hpa(most)["maxReplicas"] == expected
    assert owned_hpa(most, maxReplicas=most)["maxReplicas"] == most
