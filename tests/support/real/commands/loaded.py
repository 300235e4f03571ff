"""Loads hermesops into a process whose forks are its commands."""

from importlib import import_module
from pkgutil import walk_packages

COMMAND = "hermesops.cli.main"
"""The module whose ``main`` is the command."""

_PACKAGES = (
    *("app", "cli", "access", "agents", "automation", "infra.engine", "localcloud"),
    *("machines.image", "machines.release", "observability", "platform", "users", "vendor"),
)
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
    for name in _PACKAGES:
        package = import_module(f"hermesops.{name}")
        for module in walk_packages(package.__path__, f"hermesops.{name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
