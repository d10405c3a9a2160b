"""What does a scenario come to? From a file that people write to the fleet that is simulated."""
