"""In-place resizes: their status on a pod, the change that could be written, and the table of what to do."""
