"""`python -m testbed.node COMMAND ...`: run a command in a sandbox in which a real node can run."""

from __future__ import annotations

import sys

from testbed.errors import HarnessError
from testbed.node import sandbox

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: python -m testbed.node COMMAND ...")
    try:
        sandbox.fetch_programs()
        sys.exit(sandbox.run(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
