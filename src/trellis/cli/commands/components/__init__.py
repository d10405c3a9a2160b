"""The commands that run a component until a signal, one module each."""
