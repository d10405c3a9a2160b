"""How many pods: what reads and writes scales in a simulation."""
