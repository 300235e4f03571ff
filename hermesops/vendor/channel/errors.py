"""Errors of a channel to a machine, whatever its transport.

No error of the vendor's client passes through: another channel would not have them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps import errors as vendor


class MachineUnreachableError(UnavailableError):
    """The machine or its daemon cannot be reached, and nothing was done there."""


class MachineGoneError(RefusedError):
    """There is no such machine at the vendor, or not yet."""


class NoSuchFileError(RefusedError):
    """There is no such file on the machine."""


class CommandExpiredError(UnknownOutcomeError):
    """The command reached its time limit and was killed; its changes until then remain."""


class AnswerLostError(UnknownOutcomeError):
    """It was sent and got no answer: it may have been done, and may still run."""


_NOT_DELIVERED = frozenset({503, 521, 522, 523})
"""Statuses that say the request was not passed on: 503 of the API, and Cloudflare's when it could not connect. Not 502
and 504, which also come when the other side stopped answering halfway.

Source:
    RFC 9110, 15.6.3-15.6.5; Cloudflare's list of 5xx errors, 2026.
"""


def look_at(machine_id: str) -> Hint:
    """Return the commands that show an operator the state of a machine."""
    whose = f"shows the owner of machine {machine_id}; then"
    return Hint(("instance", "list", "--json"), whose, ("instance", "verify", "USER"))


@contextmanager
def translated(machine_id: str, doing: str, *, missing: type[RefusedError] = RefusedError) -> Iterator[None]:
    """Convert the vendor client's errors to errors of this module or of ``hermesops.errors``.

    ``doing`` reads as after "while", without secrets, so it is never a command. ``missing`` is the error for
    a 404 of the machine's own daemon.

    Raises:
        HermesError: Always one of this module or of ``hermesops.errors``.
    """
    where = f"machine {machine_id}, while {doing}"
    hint = look_at(machine_id)
    try:
        yield
    except vendor.CommandTimedOutError as cause:
        raise CommandExpiredError(f"{where}: the command reached its time limit", hint=hint) from cause
    except vendor.NotFoundError as cause:
        if cause.code:
            raise missing(f"{where}: {cause.said}") from cause
        raise MachineGoneError(f"{where}: {cause.said}", hint=Hint("compare with:", ("instance", "list"))) from cause
    except vendor.ServerError as cause:
        if cause.status in _NOT_DELIVERED or isinstance(cause, vendor.ReadServerError):
            raise MachineUnreachableError(f"{where}: {cause.said}", hint=hint) from cause
        raise AnswerLostError(f"{where}: {cause.said}", hint=hint) from cause
    except (vendor.LostChangeError, vendor.ChangeNotJsonError) as cause:
        raise AnswerLostError(f"{where}: {cause.said}", hint=hint) from cause
    except (
        vendor.UnreachableError,
        vendor.LostReadError,
        vendor.ReadNotJsonError,
        vendor.RateLimitedError,
    ) as cause:
        raise MachineUnreachableError(f"{where}: {cause.said}", hint=cause.hint or hint) from cause
    except vendor.JustAvpsError as cause:
        raise RefusedError(f"{where}: {cause.said}", hint=cause.hint or hint) from cause


SILENT = (MachineUnreachableError, MachineGoneError, CommandExpiredError, AnswerLostError)
"""Errors of a machine that does not answer a read; a read changes nothing, so a lost answer is no answer."""
