"""The documentation as tests read it: the site, code and transcripts of pages."""
