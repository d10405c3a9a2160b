"""Upstream's own chart, from the sources of the version whose programs are compiled.

Its hooks are left out: they are Jobs of an image that makes a certificate, and that the tests do not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.programs.modules import find_upstream_vpa

RELEASE: Final = "vpa"
COMPONENTS: Final = ("recommender", "updater", "admission-controller")
WITHOUT_JOBS: Final = "--no-hooks"

_NAME: Final = "vertical-pod-autoscaler"
# Its webhook configuration has a name of its own; that of upstream's programs is "vpa-webhook-config".
CONFIGURATION: Final = f"{RELEASE}-{_NAME}-webhook-config"


def find_chart() -> Path:
    """The folder of the chart."""
    return find_upstream_vpa() / "charts" / _NAME


def deployment_name(component: str) -> str:
    """The name of the Deployment of a component."""
    return f"{RELEASE}-{_NAME}-{component}"
