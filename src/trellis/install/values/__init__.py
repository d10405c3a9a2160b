"""The values of an installation: what can be chosen, with defaults, meaning and limits."""
