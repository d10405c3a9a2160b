"""Reference pages and files of monitoring."""
