"""`make machines-test`: the stories of nodes with the real Cluster API, the real Karpenter, and by gRPC.

The tests of one provider run one after the other, beside those of the others: several managers of Cluster API in one
cluster would delay each other. A test that fails is run once more alone, as by `make test`.
"""

from __future__ import annotations

import subprocess
import sys

from all_tests import build_suite, rerun_failed

if __name__ == "__main__":
    suite = build_suite([], 3, ".pytest_cache/machines", "tests/cluster/machines", distribution="loadgroup")
    try:
        sys.exit(rerun_failed(suite, subprocess.run(suite.command, check=False).returncode))
    except KeyboardInterrupt:
        sys.exit(130)
