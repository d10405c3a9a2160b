"""Machines by Cluster API: MachineDeployments, MachineSets and MachinePools with limits in annotations are node groups.

Pure functions from objects to states and actions: only `plugin` connects to a management cluster.
"""
