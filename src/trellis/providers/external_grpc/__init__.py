"""Node groups behind Cluster Autoscaler's external gRPC protocol: a client of it, and its messages.

| module | contains |
|---|---|
| `protobuf` | reads and writes protobuf messages that are declared as structs |
| `messages`, `node_messages` | the messages of the protocol, and the slice of v1.Node in them |
| `rpcs` | the calls of the protocol with their messages, and their errors |
| `configuration` | the file that Cluster Autoscaler reads by `--cloud-config` |
| `answers` | what answers say about groups, as `GroupState`s |
| `unsettled_changes` | changes whose result the server does not show yet |
| `provider` | the provider |
| `channel` | the connection; only this module and the plug-in's opening import grpcio, which is an extra |

Only sizes are relative in the protocol: `provider` says how orders stay absolute, and what the protocol cannot give.
"""
