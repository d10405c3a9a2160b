"""The command line: one module per command, each a composition root.

A command parses its arguments, wires what it needs, prints what `reports` made of the result and sets the exit code.
Nothing is decided here, and a command's imports stay inside it, so that `trellis --help` costs next to nothing.
"""
