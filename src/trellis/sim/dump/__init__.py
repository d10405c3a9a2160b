"""What would become of a cluster that was dumped? From a dump to the fleet that is simulated."""
