"""Settings: declared once, read from flags, environment and a file, documented from the declaration."""
