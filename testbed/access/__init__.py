"""Kubeconfigs, certificates, accounts and rights on the control plane."""
