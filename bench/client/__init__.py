"""Lists, watches and quantities."""
