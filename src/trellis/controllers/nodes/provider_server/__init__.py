"""Offers the node providers of Trellis by Cluster Autoscaler's external gRPC protocol.

A component of its own: it decides nothing, and carries out what a client asks for, within the sizes of the groups.
Only `grpc_server` imports grpcio, which is an extra.
"""
