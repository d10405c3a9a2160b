"""Observes whether the chunks of Buffers fit on ready nodes, where no `trellis nodes` runs."""
