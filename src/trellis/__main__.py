"""The command `trellis`, which is also `python -m trellis`: Ctrl-C ends it quietly even while it is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Import the command line and run it; from then on it answers Ctrl-C itself."""
    try:
        from trellis.cli.main import main as run  # noqa: PLC0415 - here, or Ctrl-C would show where it is
    except KeyboardInterrupt:
        sys.exit(130)  # what a shell makes of a command that was ended by Ctrl-C
    run()


if __name__ == "__main__":
    main()
