"""200,000 quantities from text to numbers: requests, limits and usage of 25,000 pods, in one pass."""

from __future__ import annotations

import time

from bench.measurement import CannotMeasure, Row, within

SECONDS = 0.15
COUNT = 200_000
ROUNDS = 5


def measure() -> list[Row]:
    try:
        from trellis.base.quantity_columns import parse_milli_column  # noqa: PLC0415
    except ImportError as error:
        raise CannotMeasure(str(error)) from error
    best = float("inf")
    for _ in range(ROUNDS):
        texts = _quantities()
        start = time.perf_counter()
        parse_milli_column(texts)
        best = min(best, time.perf_counter() - start)
    return [within(f"parse {COUNT:,} quantities", best, SECONDS)]


def _quantities() -> list[str]:
    """Requests repeat and usage does not: half of the texts come from forty values, half occur about once."""
    usual = [f"{n * 25}m" for n in range(1, 21)] + [f"{n * 128}Mi" for n in range(1, 21)]
    texts: list[str] = []
    for i in range(COUNT // 4):
        texts += (usual[i % 20], usual[20 + i * 7 % 20], f"{i * 7919 + 1}n", f"{i * 13 + 40_000}Ki")
    return texts
