"""The kubelets of the model cluster: how pods start, use resources, are resized and end."""
