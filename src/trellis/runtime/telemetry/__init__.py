"""Telemetry of a component: logs, metrics, probes and Events."""
