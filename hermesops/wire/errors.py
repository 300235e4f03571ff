"""Errors and exit codes of hermes-node, for hermes-node and its callers."""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of ``hermes-node``; 2, 3, 4, 7 and 8 have the same meaning as those of ``hermesops``."""

    OK = 0
    ERROR = 1
    BAD_REQUEST = 2
    REFUSED = 3
    NOT_READY = 4
    UNFINISHED = 7
    """Not done yet: the agent is still busy, or files are missing. The same command continues."""

    FAILED = 8
    """Tried, and failed."""

    OUTRANKED = 9


class NodeError(Exception):
    """An error that the caller can act on; the message holds no secret."""

    exit_code: ClassVar[ExitCode] = ExitCode.ERROR


class BadRequestError(NodeError):
    """The payload or the command violates the protocol; nothing was changed."""

    exit_code = ExitCode.BAD_REQUEST


class RefusedError(NodeError):
    """A guard refused (older epoch, another instance's machine); nothing was changed."""

    exit_code = ExitCode.REFUSED


class NotReadyError(NodeError):
    """The machine lacks something, or the gateway does not answer: the same command may be repeated."""

    exit_code = ExitCode.NOT_READY


class UnhealthyError(NodeError):
    """The gateway answers and reports a failure."""

    exit_code = ExitCode.FAILED


class OutrankedError(NodeError):
    """This machine has seen a newer lease: the caller must stop working; nothing was changed."""

    exit_code = ExitCode.OUTRANKED
