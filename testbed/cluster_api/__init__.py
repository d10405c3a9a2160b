"""Cluster API on a control plane: its core manager, and a small infrastructure provider whose machines kwok plays."""
