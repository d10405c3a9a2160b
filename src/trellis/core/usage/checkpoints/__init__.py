"""Checkpoints: what of a usage row outlives the process, in upstream's format, with history beside it."""
