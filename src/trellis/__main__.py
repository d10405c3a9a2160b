"""`python -m trellis` is the command `trellis`."""

from trellis.cli.main import main

if __name__ == "__main__":
    main()
