"""Each kind of operation has something that does it."""

from unittest.mock import MagicMock

from hermesops.app.handlers.operations import OperationHandlers
from hermesops.model.operation import OperationKind


def test_every_kind_has_one_handler() -> None:
    handlers = OperationHandlers(MagicMock()).handlers()
    assert list(handlers) == list(OperationKind)
