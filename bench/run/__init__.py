"""Measurements of `trellis run`: several components in one process."""
