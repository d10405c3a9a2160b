"""Kinds of other projects by which machines are ordered."""
