"""Replays recordings of components: the core decides again, and every decision is compared."""
