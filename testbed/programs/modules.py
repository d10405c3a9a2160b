"""Sources of the modules that programs are compiled from: of upstream's, charts and definitions are in them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from testbed.programs.go import find_go, run_go
from testbed.programs.sources import create_peer_sources

_VPA: Final = "k8s.io/autoscaler/vertical-pod-autoscaler"


@cache
def find_upstream_vpa() -> Path:
    """The folder of upstream's VPA, in the version whose programs are compiled; downloaded if it is not there.

    Go verifies it by the checksum in peers/go.sum. It is in Go's cache, and read-only.
    """
    with tempfile.TemporaryDirectory(prefix="trellis-testbed-sources-") as name:
        module = Path(name)
        create_peer_sources().write(module)
        answer = run_go([find_go(module), "mod", "download", "-json", _VPA], module)
    return Path(json.loads(answer)["Dir"])
