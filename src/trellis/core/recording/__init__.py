"""Recordings: what each component saw and decided, as JSON lines that can be replayed. One module per component."""
