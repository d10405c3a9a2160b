"""What providers share whose node groups are documents in a ConfigMap.

Pure, but for `config_maps`: reading and validating documents, names of new nodes, and answers about groups.
"""
