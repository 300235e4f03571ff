"""Loads hermesops into a process whose forks are its commands."""

from importlib import import_module
from pkgutil import walk_packages

COMMAND = "hermesops.cli.main"
"""The module whose ``main`` is the command."""

_WINGS = ("app", "cli", "engine", "channel", "image", "instances", "justavps", "localcloud", "release")
_LAZILY = (
    "anyio._backends._asyncio",
    "grpc.aio",
    "pulumi.runtime.proto.provider_pb2_grpc",
    "_strptime",
    "hermesops.infra.stacks.fleet",
)
"""What libraries load when it is first needed, or commands where they need it."""


def load() -> None:
    """Load what commands load. Nothing of it may start a thread: who forks has one."""
    for name in _LAZILY:
        import_module(name)
    for wing in _WINGS:
        package = import_module(f"hermesops.{wing}")
        for module in walk_packages(package.__path__, f"hermesops.{wing}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
