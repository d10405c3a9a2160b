"""Container images made without a registry: a shell, a JVM, and Trellis; and a start of one without a runtime."""
