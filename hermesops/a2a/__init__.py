"""The A2A protocol: users' agents as agents of others call them. Parses, calls services as the key's caller, renders.

Source: A2A specification 1.0, and a2a-sdk 1.3.0, whose routes also serve callers of 0.3.
"""

import sys
from typing import cast

_OF_GRPC = ("a2a.server.request_handlers.grpc_handler", "a2a.client.transports.grpc", "a2a.compat.v0_3.grpc_transport")

# The SDK loads its modules of gRPC wherever grpcio is installed, and with them Google's file of ``google.rpc.Status``.
# Pulumi brings that type in another file, and protobuf lets a process load one of the two (a2a-sdk 1.3.0, pulumi
# 3.272). In a local world one process needs both packages. The SDK does without what cannot be imported.
for _module in _OF_GRPC:
    cast("dict[str, object]", sys.modules).setdefault(_module, None)
