"""Connections and credentials: kubeconfig, service account, tokens, certificates and exec plug-ins."""
