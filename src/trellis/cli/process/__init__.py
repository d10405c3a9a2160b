"""The process of several components on the command line: its components, their settings and its help."""
