"""The user's own model provider in a process that opens no settings of agents."""

from typing import NoReturn

from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.instance import Instance


def unread(instance: Instance) -> NoReturn:
    """Say that nobody knows it here.

    Raises:
        UnavailableError: Always.
    """
    raise UnavailableError(
        "this process reads no settings of agents", hint=Hint(("instance", "model-provider", instance.title))
    )
