"""What the served console reaches: nothing. Workers carry out what its operators ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hermesops.errors import UnavailableError


@asynccontextmanager
async def no_machine(_container: object) -> AsyncIterator[Any]:
    """In the place of connections to machines.

    Raises:
        UnavailableError: Always.
    """
    raise UnavailableError("the served console reaches no machine: workers carry out what operators ask for")
    yield  # a generator, as the container's


@asynccontextmanager
async def no_vendor(_container: object) -> AsyncIterator[Any]:
    """In the place of a connection to JustAVPS; raises as ``no_machine``."""
    raise UnavailableError("the served console has no key of JustAVPS")
    yield  # as above
