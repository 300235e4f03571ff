"""Why hermes-node did not do what it was asked, as exit codes that mean what hermesops's own mean."""

from typing import ClassVar

UNFINISHED = 7
"""Exit code of what is not done yet: the agent is still at work, or files are missing. The same again goes on."""

FAILED = 8
"""Exit code of what was tried and did not do."""


class NodeError(Exception):
    """Something the caller can act on; the message holds no secret."""

    exit_code: ClassVar[int] = 1


class BadRequestError(NodeError):
    """The payload or the command is not what the protocol says; nothing was touched."""

    exit_code = 2


class RefusedError(NodeError):
    """A guard said no (older epoch, somebody else's machine); nothing was touched."""

    exit_code = 3


class NotReadyError(NodeError):
    """The machine lacks something, or the gateway does not answer: the same command may be repeated."""

    exit_code = 4


class UnhealthyError(NodeError):
    """The gateway answers and says that something is wrong."""

    exit_code = FAILED


class OutrankedError(NodeError):
    """Somebody with a newer lease has been here: whoever asks must stop working; nothing was touched."""

    exit_code = 9
