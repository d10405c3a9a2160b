"""The image of Trellis: its root file system, its archive, and a start of it without a container runtime."""
