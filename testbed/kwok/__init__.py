"""The nodes and kubelets that kwok plays."""
