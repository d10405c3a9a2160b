"""The policy by which an estimate becomes a request and a limit, with its defaults.

Without CPU limits no container is throttled while a core is idle, and a pod under pressure still gets its share by its
request. Memory cannot be taken back: with a limit at the request, a container that needs more is killed alone and at
once, instead of a neighbour at some other time.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.advice.survey.model import ResourceAmount

DAY = 86_400.0
RESOURCES = ("cpu", "memory")


def select_resource(amount: ResourceAmount, resource: str) -> float:
    """The amount of one resource, by its name."""
    return amount.cpu if resource == "cpu" else amount.memory


class LimitRule(StrEnum):
    """How a limit follows from a request."""

    NONE = "none"  # there is none
    REQUEST = "request"  # the same as the request
    KEEP = "keep"  # as it is, and never below the request
    KEEP_RATIO = "keep-ratio"  # as many times the request as before


class LimitRules(msgspec.Struct, frozen=True):
    """The rule for each resource."""

    cpu: LimitRule = LimitRule.NONE
    memory: LimitRule = LimitRule.REQUEST

    def get_rule(self, resource: str) -> LimitRule:
        """The rule of one resource, by its name."""
        return self.cpu if resource == "cpu" else self.memory

    def __str__(self) -> str:
        return f"cpu={self.cpu},memory={self.memory}"


class AdvicePolicy(msgspec.Struct, frozen=True):
    """The policy of advice. `least` and `most` bound requests, NaN is no bound.

    What differs by less than `tolerance` of what it is, or by less than `slight`, is left alone: each change costs
    a rollout. A container with less than `history` seconds of usage is left alone too. Requests are rounded
    up to steps of `step`.
    """

    limits: LimitRules = LimitRules()
    least: ResourceAmount = ResourceAmount()
    most: ResourceAmount = ResourceAmount()
    tolerance: float = 0.1
    slight: ResourceAmount = ResourceAmount(5.0, 8.0 * 2**20)
    history: float = DAY
    step: ResourceAmount = ResourceAmount(1.0, 2.0**20)

    def bound_amount(self, resource: str, amount: float) -> float:
        """An amount rounded up to a whole step and put between the bounds."""
        step = select_resource(self.step, resource)
        # Comparing with NaN, which is no bound, leaves the first.
        rounded = max(math.ceil(amount / step - 1e-9) * step, select_resource(self.least, resource))
        return min(rounded, select_resource(self.most, resource))


def compute_limit(policy: AdvicePolicy, resource: str, current: tuple[float, float], request: float) -> float:
    """The limit that goes with a new request. Kubernetes takes a limit without a request for both."""
    before, limit = current
    rule = policy.limits.get_rule(resource)
    if rule is LimitRule.REQUEST:
        return request
    if rule is LimitRule.NONE or math.isnan(limit):
        return math.nan
    if rule is LimitRule.KEEP:
        return max(limit, request)
    ratio = limit / before if before > 0 else 1.0
    step = select_resource(policy.step, resource)
    return max(math.ceil(request * ratio / step - 1e-9) * step, request)


def parse_limit_rules(text: str) -> LimitRules:
    """Rules as they are written on a command line: one for both resources, or `cpu=none,memory=keep`."""
    if "=" not in text:
        return LimitRules(_parse_rule(text, text), _parse_rule(text, text))
    rules: dict[str, LimitRule] = {}
    for part in text.split(","):
        resource, _, rule = (side.strip() for side in part.partition("="))
        if resource not in RESOURCES:
            raise InvalidInput(text, f'"{resource}" is neither cpu nor memory')
        if resource in rules:
            raise InvalidInput(text, f"{resource} occurs twice")
        rules[resource] = _parse_rule(text, rule)
    return LimitRules(**rules)


def _parse_rule(text: str, rule: str) -> LimitRule:
    try:
        return LimitRule(rule)
    except ValueError:
        guess = suggest_name(rule, [limit_rule.value for limit_rule in LimitRule])
        hint = f' (did you mean "{guess}"?)' if guess else ""
        listed = ", ".join(LimitRule)
        raise InvalidInput(text, f'"{rule}" is not a rule for limits{hint}; the rules are {listed}') from None
