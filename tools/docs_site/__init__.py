"""The documentation as a site: what Sphinx needs to build it from the pages of the repository as they are."""
