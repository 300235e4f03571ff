"""Runs of Pulumi's own CLI by an operator, with a program of hermesops."""

from collections.abc import Iterator
from contextlib import contextmanager

import pulumi

from hermesops.errors import HermesError


@contextmanager
def run_errors() -> Iterator[None]:
    """Turn errors of hermesops into Pulumi's, which it shows as one line.

    Raises:
        RunError: An error of hermesops was raised.
    """
    try:
        yield
    except HermesError as error:
        raise pulumi.RunError(f"{error.message}: {error.hint}" if error.hint else error.message) from None
