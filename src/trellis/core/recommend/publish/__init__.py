"""Statuses of VPAs and totals of Hvpas: their content, and when they are written."""
