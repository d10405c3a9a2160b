"""Kinds of other projects by which capacity is requested for several pods at once."""
