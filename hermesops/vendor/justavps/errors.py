"""The vendor's refusals, and missing answers, as types; each has a hint for the operator.

::

    JustAvpsError
    ├── UnreachableError          nothing was sent                          unavailable
    ├── LostAnswerError           sent, no answer
    │   ├── LostReadError             of a read: nothing changed            unavailable
    │   └── LostChangeError           of a change: it may have happened     unknown outcome
    ├── OrderUnknownError         a machine was ordered, none is seen       unknown outcome
    └── AnswerError               an answer that is not a success
        ├── ServerError           5xx
        │   ├── ReadServerError       to a read                             unavailable
        │   └── ChangeServerError     to a change                           unknown outcome
        ├── NotJsonError          HTML, or JSON of a shape we do not know
        │   ├── ReadNotJsonError      to a read                             unavailable
        │   └── ChangeNotJsonError    to a change                           unknown outcome
        ├── CommandTimedOutError  408: the command was stopped halfway      unknown outcome
        ├── RateLimitedError      429                                       unavailable
        └── NotAllowedError       the other 4xx: nothing changed            refused
            ├── UnauthorisedError 401   ├── PaymentRequiredError 402   ├── ForbiddenError 403
            ├── NotFoundError     404   ├── ConflictError        409   ├── TooLargeError  413
            └── UnprocessableError 422

A message never repeats a body: only the vendor's own sentence, scrubbed (``scrubbed``), since bodies of machine calls
carry a root key.
"""

import re

from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.wire.foreign_text import one_line

_LONGEST = 4096
"""Characters of a text that are searched for what must not be shown."""

_KEY_MATERIAL = re.compile(r"PRIVATE KEY|BEGIN [A-Z ]*KEY", re.IGNORECASE)
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_-]{64,}")
_API_KEY = re.compile(r"\bsk_[A-Za-z0-9_-]+")


def scrubbed(text: str) -> str:
    """Return one line of ``text`` that may be shown: no key material, API key or long opaque run; bounded length."""
    if _KEY_MATERIAL.search(text):
        return "(withheld: the answer carries key material)"
    return one_line(_LONG_RUN.sub("[…]", _API_KEY.sub("sk_[…]", text[:_LONGEST])))


class JustAvpsError(HermesError):
    """A call to JustAVPS that did not succeed.

    Args:
        call: The request, as ``GET /machines``: method and path without query.
        problem: Description of the failure, safe to show.
        request_id: Id in the request's header, in our log and perhaps in the vendor's.
    """

    def __init__(self, call: str, problem: str, *, request_id: str = "", hint: Hint | str = "") -> None:
        super().__init__(f"JustAVPS, {call}: {problem}", hint=hint or self._again)
        self.call = call
        self.said = problem
        self.request_id = request_id

    @property
    def _again(self) -> str:
        """Hint for a missing or wrong answer; empty for a refusal."""
        if isinstance(self, UnknownOutcomeError):
            return "run the same command again: it looks for what was done first"
        return "run the same command again" if isinstance(self, UnavailableError) else ""


class UnreachableError(JustAvpsError, UnavailableError):
    """Nothing was sent: no name, no route, no listener, or no TLS."""


class LostAnswerError(JustAvpsError):
    """The request was sent, and the connection broke or the deadline passed before an answer."""


class LostReadError(LostAnswerError, UnavailableError):
    """The answer to a read was lost; nothing changed."""


class LostChangeError(LostAnswerError, UnknownOutcomeError):
    """The answer to a change was lost; it may have happened."""


class OrderUnknownError(JustAvpsError, UnknownOutcomeError):
    """A machine was ordered, the answer was lost, and no machine of that name has appeared yet.

    Attributes:
        name: The exact name to look for before ordering again.
    """

    def __init__(self, call: str, problem: str, *, name: str, request_id: str = "", hint: Hint | str = "") -> None:
        super().__init__(call, problem, request_id=request_id, hint=hint)
        self.name = name


class AnswerError(JustAvpsError):
    """An answer that is not a success.

    Attributes:
        code: The machine's daemon's own code (``file_not_found`` …); empty when the API itself answered.
    """

    def __init__(
        self, call: str, problem: str, *, status: int, code: str = "", request_id: str = "", hint: Hint | str = ""
    ) -> None:
        super().__init__(call, f"{status}, {problem}" if problem else str(status), request_id=request_id, hint=hint)
        self.status = status
        self.code = code


class ServerError(AnswerError):
    """Status 5xx: the vendor's server failed."""


class ReadServerError(ServerError, UnavailableError):
    """5xx to a read; nothing changed."""


class ChangeServerError(ServerError, UnknownOutcomeError):
    """5xx to a change. JustAVPS is known to answer so to orders that it then carries out."""


class NotJsonError(AnswerError):
    """Not JSON, or JSON of a shape we do not know: a proxy's error page, another service, a new API."""


class ReadNotJsonError(NotJsonError, UnavailableError):
    """The answer to a read is not understood; nothing changed."""


class ChangeNotJsonError(NotJsonError, UnknownOutcomeError):
    """The answer to a change is not understood; the change may have happened."""


class CommandTimedOutError(AnswerError, UnknownOutcomeError):
    """Status 408: the machine stopped the command at its time limit; its changes until then remain."""


class RateLimitedError(AnswerError, UnavailableError):
    """429: too many calls; nothing was done.

    Attributes:
        retry_after_s: Seconds the vendor asks to wait; 0 when it does not say.
    """

    retry_after_s = 0.0


class NotAllowedError(AnswerError, RefusedError):
    """A 4xx: the request was understood and refused; nothing changed."""


class UnauthorisedError(NotAllowedError):
    """401: the API key is wrong or revoked."""


class PaymentRequiredError(NotAllowedError):
    """402: the account has no payment method.

    Attributes:
        checkout_url: Where a person adds one; may be empty.
    """

    checkout_url = ""


class ForbiddenError(NotAllowedError):
    """403: protected, as PID 1 or ``/root``."""


class NotFoundError(NotAllowedError):
    """404: no such machine, image or file. A machine that was just ordered may answer so for a minute."""


class ConflictError(NotAllowedError):
    """409: it exists already, or something else is being done to it."""


class TooLargeError(NotAllowedError):
    """413: the upload is larger than the daemon takes."""


class UnprocessableError(NotAllowedError):
    """422: not possible, as an image larger than the server type's disk, or a location that is not sold."""


NOT_ALLOWED: dict[int, type[NotAllowedError]] = {
    401: UnauthorisedError,
    402: PaymentRequiredError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    422: UnprocessableError,
}
"""Which type a status becomes; any other 4xx is ``NotAllowedError`` itself."""

HINTS: dict[type[AnswerError], Hint | str] = {
    UnauthorisedError: Hint("check the API key:", ("settings", "show")),
    NotFoundError: Hint(
        "run the same command again, a new machine or image may be unknown for a minute; else", ("fleet", "drift")
    ),
    ConflictError: "run the same command again after the running action on it has ended",
}
"""What to do about those that the API itself answers and that do not say it by their type."""
