"""Checkpoints: the part of a usage row that survives the process, in upstream's format, with history beside it."""
