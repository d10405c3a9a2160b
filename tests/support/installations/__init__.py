"""Installations for tests of the diagnosis: as facts, and in an API server in memory."""
