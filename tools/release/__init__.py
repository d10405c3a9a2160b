"""What is published with a release: locked requirements, the SBOM, the provenance, the notes."""
