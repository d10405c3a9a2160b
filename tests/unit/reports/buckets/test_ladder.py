"""The drawing of proposed buckets."""

from __future__ import annotations

import re

import msgspec

from support.builders.surveys import NOW
from support.builders.surveys_over_time import recorded_shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.reports.buckets.ladder import draw_ladder, list_capacities
from trellis.reports.buckets.proposals import propose_buckets

PROPOSALS = propose_buckets(advise(recorded_shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW)).proposed


def test_every_bucket_is_a_rung_that_is_named_by_replicas_and_capacity() -> None:
    for proposal in PROPOSALS:
        buckets = proposal.suggestion.proposal
        assert buckets is not None
        for drawing in draw_ladder(proposal):
            assert drawing.count('class="rung"') == len(buckets.buckets)
        capacities = list_capacities(buckets, proposal.suggestion.utilization)
        assert capacities == sorted(capacities)
    (search,) = (proposal for proposal in PROPOSALS if proposal.workload.name == "search")
    wide, narrow = draw_ladder(search)
    assert ">2 replicas: 2.40 cores<" in wide
    assert ">Replicas<" in narrow
    assert ">2<" in narrow


def test_the_axes_have_a_unit_and_round_values() -> None:
    for drawing in draw_ladder(PROPOSALS[0]):
        assert ">CPU, cores<" in drawing
        ticks = re.findall(r'<text class="tick"[^>]*>([^<]+)', drawing)
        assert {"0", "2", "4", "6", "26 Dec"} <= set(ticks)


def test_without_usage_over_time_there_is_no_drawing() -> None:
    workload = msgspec.structs.replace(PROPOSALS[0].workload, totals=None)
    assert draw_ladder(msgspec.structs.replace(PROPOSALS[0], workload=workload)) == []
