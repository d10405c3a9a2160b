"""Container images for a real node, made without a registry: a shell, a JVM, and the components."""
