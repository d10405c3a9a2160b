"""Helm, kubectl and other programs that install and check manifests."""
