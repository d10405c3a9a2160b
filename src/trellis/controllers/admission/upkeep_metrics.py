"""How is what the webhook depends on counted: its certificate and its registration?"""

from __future__ import annotations

from typing import Final

from trellis.runtime.metrics import CounterSpec, GaugeSpec, Spec

SERVING: Final = "serving"
AUTHORITY: Final = "authority"

EXPIRY: Final = GaugeSpec(
    "trellis_admission_certificate_expiry_timestamp_seconds",
    "When the certificate ends that the API server is shown, and the first authority that vouches for it.",
    ("certificate",),
)
LOADS: Final = CounterSpec(
    "trellis_admission_certificate_loads_total",
    "Certificates that were found, by whether they were taken (loaded) or the one before was kept (refused).",
    ("result",),
)
REGISTERED: Final = GaugeSpec(
    "trellis_admission_webhook_registered",
    "Whether the webhook configuration is as it should be, as far as this replica knows.",
)

UPKEEP_METRICS: Final[tuple[Spec, ...]] = (EXPIRY, LOADS, REGISTERED)
