"""The command line: `main` dispatches to the modules of `commands`; the rest is what commands share.

A command parses its arguments, wires what it needs, prints what `reports` made of the result and sets the exit code.
Nothing is decided here, and a command's imports stay inside it, so that `trellis --help` costs next to nothing.
"""
