import pytest

from hermesops.errors import HermesError, RefusedError
from hermesops.vendor.channel import (
    AnswerLostError,
    CommandExpiredError,
    MachineGoneError,
    MachineUnreachableError,
    NoSuchFileError,
)
from hermesops.vendor.channel.errors import translated
from hermesops.vendor.justavps import errors as vendor
from tests.support.suite.cases import each_case

CALL = "POST /machines/m1/toolbox/process/execute"


def _answer(kind: type[vendor.AnswerError], status: int, code: str = "") -> vendor.AnswerError:
    return kind(CALL, "said", status=status, code=code)


@each_case(
    ("cause", "meaning"),
    [
        (vendor.UnreachableError(CALL, "no route"), MachineUnreachableError),
        (vendor.LostReadError(CALL, "hung up"), MachineUnreachableError),
        (vendor.LostChangeError(CALL, "hung up"), AnswerLostError),
        (_answer(vendor.ChangeServerError, 500), AnswerLostError),
        (_answer(vendor.ChangeServerError, 504), AnswerLostError),
        (_answer(vendor.ChangeServerError, 502), AnswerLostError),
        (_answer(vendor.ChangeServerError, 522), MachineUnreachableError),
        (_answer(vendor.ChangeServerError, 503), MachineUnreachableError),
        (_answer(vendor.ReadServerError, 500), MachineUnreachableError),
        (_answer(vendor.ChangeNotJsonError, 200), AnswerLostError),
        (_answer(vendor.ReadNotJsonError, 200), MachineUnreachableError),
        (_answer(vendor.CommandTimedOutError, 408), CommandExpiredError),
        (_answer(vendor.NotFoundError, 404), MachineGoneError),
        (_answer(vendor.NotFoundError, 404, "user_not_found"), RefusedError),
        (_answer(vendor.UnauthorisedError, 401), RefusedError),
        (_answer(vendor.TooLargeError, 413, "too_large"), RefusedError),
    ],
)
def test_the_vendors_errors_become_ours(cause: Exception, meaning: type[HermesError]) -> None:
    with pytest.raises(HermesError, match="machine m1, while testing: ") as raised, translated("m1", "testing"):
        raise cause
    assert type(raised.value) is meaning
    assert not isinstance(raised.value, vendor.JustAvpsError)


def test_a_missing_file_is_no_missing_machine() -> None:
    with (
        pytest.raises(NoSuchFileError, match="while reading /x: 404"),
        translated("m1", "reading /x", missing=NoSuchFileError),
    ):
        raise _answer(vendor.NotFoundError, 404, "not_found")


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated("m1", "testing"):
        raise ZeroDivisionError
