"""What is written to VPAs and Hvpas: conditions, which statuses changed enough, and their content."""
