"""JustAVPS's HTTP API and nothing else: one account's machines, images and tokens, and the machines' toolboxes.

It must not know hermesops' use of machines.
"""

from hermesops.vendor.justavps.client import Client
from hermesops.vendor.justavps.ordering import wait_ready
from hermesops.vendor.justavps.proxy import Port, ProxyAnswer, ProxyClient, ProxyStream
from hermesops.vendor.justavps.sse import ServerSentEvent
from hermesops.vendor.justavps.toolbox import ExecResult, Execution, ExitEvent, OutputEvent
from hermesops.vendor.justavps.wire import (
    Image,
    ImageStatus,
    Machine,
    MachineOrder,
    MachineStatus,
    ProxyToken,
    ServerType,
)

__all__ = [
    "Client",
    "ExecResult",
    "Execution",
    "ExitEvent",
    "Image",
    "ImageStatus",
    "Machine",
    "MachineOrder",
    "MachineStatus",
    "OutputEvent",
    "Port",
    "ProxyAnswer",
    "ProxyClient",
    "ProxyStream",
    "ProxyToken",
    "ServerSentEvent",
    "ServerType",
    "wait_ready",
]
