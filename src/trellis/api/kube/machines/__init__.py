"""Kinds about machines: those of other projects by which machines are ordered, and devices that pods claim."""
