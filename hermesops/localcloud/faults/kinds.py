"""What can go wrong at the vendor's, as far as others have met it. Pure.

Source: what the vendor's one public client works around, March to May 2026, and what its schema leaves open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermesops.errors import UsageError
from hermesops.model.unknown_name import unknown_name

EDGE_S = 100
"""Seconds of silence after which the vendor's edge cuts a request.

Source: Cloudflare's error 524; the vendor's public client starts long work detached because of it, 2026.
"""


class FaultKind(StrEnum):
    """What can go wrong."""

    # Orders
    CREATED_BUT_5XX = "create-5xx-but-created"
    PAYMENT_REQUIRED = "payment-required"
    UNPROCESSABLE = "unprocessable"
    LOCATION_DISABLED = "location-disabled"
    SOLD_OUT = "sold-out"
    # What is said of machines, images and backups
    NOT_FOUND = "not-found-for-a-while"
    READY_EARLY = "ready-before-bootstrapped"
    ERROR_THEN_READY = "error-then-ready"
    STALE_STATUS = "stale-status"
    STALE_LIST = "stale-list"
    OLDER_SHAPE = "older-shape"
    IMAGE_FAILS = "image-fails"
    IMAGE_EARLY = "image-ready-too-early"
    BACKUP_FAILS = "backup-fails"
    # Any call
    LOST_ANSWER = "lost-answer"
    SERVER_ERROR = "server-error"
    EDGE_ERROR = "edge-error"
    EDGE_ERROR_BUT_DONE = "edge-error-but-done"
    RATE_LIMITED = "rate-limited"
    SLOW_ANSWER = "slow-answer"
    KEY_REFUSED = "key-refused"
    BUSY = "busy"
    IGNORED = "accepted-and-ignored"
    SILENCE_CUT = "silence-cut"
    # The proxy
    PROXY_UNAUTHORISED = "proxy-unauthorised"
    # Webhooks
    WEBHOOK_LOST = "webhook-lost"
    WEBHOOK_TWICE = "webhook-twice"
    WEBHOOK_LATE = "webhook-late"
    WEBHOOK_UNSIGNED = "webhook-unsigned"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _KINDS[self].meaning

    @property
    def status(self) -> int:
        """Status it answers unless told otherwise; 0 where its kind does not leave that open."""
        statuses = _KINDS[self].statuses
        return statuses.start if statuses else 0

    @property
    def seconds(self) -> int:
        """Seconds it is about unless told otherwise; 0 where it is not about any."""
        return _KINDS[self].seconds

    def check_status(self, status: int) -> None:
        """Refuse a status that this kind cannot answer.

        Raises:
            UsageError: It cannot.
        """
        allowed = _KINDS[self].statuses
        if status not in allowed:
            said = f"{allowed[0]} to {allowed[-1]}" if allowed else "it has none to choose"
            raise UsageError(f"{status} is not a status of {self} ({said})")


@dataclass(frozen=True)
class _Kind:
    meaning: str
    statuses: range = range(0)
    seconds: int = 0


_SERVER_ERRORS = range(500, 600)
_KINDS: Mapping[FaultKind, _Kind] = {
    FaultKind.CREATED_BUT_5XX: _Kind("a new machine is made, and the answer is 500"),
    FaultKind.PAYMENT_REQUIRED: _Kind("a new machine is refused with 402"),
    FaultKind.UNPROCESSABLE: _Kind("a new machine is refused with 422 about its disk"),
    FaultKind.LOCATION_DISABLED: _Kind("a new machine is refused with 422 about its region"),
    FaultKind.SOLD_OUT: _Kind("a new machine is refused with 422, its size is not to be had now"),
    FaultKind.NOT_FOUND: _Kind("a machine that exists answers 404"),
    FaultKind.READY_EARLY: _Kind("a new machine is called ready before anything on it runs"),
    FaultKind.ERROR_THEN_READY: _Kind("a new machine is called broken until it turns out well"),
    FaultKind.STALE_STATUS: _Kind("a machine's answer tells the status of before its last change"),
    FaultKind.STALE_LIST: _Kind("the list of machines is the one of before the last order or deletion"),
    FaultKind.OLDER_SHAPE: _Kind("a machine's answer has the shape of March 2026: ssh as text, fewer urls, no health"),
    FaultKind.IMAGE_FAILS: _Kind("an image fails"),
    FaultKind.IMAGE_EARLY: _Kind("an image is called ready --seconds before it can be booted", seconds=5),
    FaultKind.BACKUP_FAILS: _Kind("a backup fails"),
    FaultKind.LOST_ANSWER: _Kind("the call is carried out, and the connection drops instead of an answer"),
    FaultKind.SERVER_ERROR: _Kind("the call is refused with a 5xx, and nothing happened", _SERVER_ERRORS),
    FaultKind.EDGE_ERROR: _Kind("the edge answers a page of HTML, and nothing happened", range(502, 600)),
    FaultKind.EDGE_ERROR_BUT_DONE: _Kind("the call is carried out, and the edge answers HTML", range(502, 600)),
    FaultKind.RATE_LIMITED: _Kind("the call is refused with 429, to be repeated after --seconds", seconds=1),
    FaultKind.SLOW_ANSWER: _Kind("the call is carried out at once and answered --seconds later", seconds=6),
    FaultKind.KEY_REFUSED: _Kind("a good API key is refused with 401"),
    FaultKind.BUSY: _Kind("a change of a machine is refused with 409, something else is being done to it"),
    FaultKind.IGNORED: _Kind("start, stop, reboot, resize or restore is accepted and never done"),
    FaultKind.SILENCE_CUT: _Kind(
        "a toolbox or proxy request that is silent for --seconds is cut; what it began goes on", seconds=EDGE_S
    ),
    FaultKind.PROXY_UNAUTHORISED: _Kind("the proxy refuses a good token with 401, or 403", range(401, 404, 2)),
    FaultKind.WEBHOOK_LOST: _Kind("an event is never sent"),
    FaultKind.WEBHOOK_TWICE: _Kind("an event is sent twice"),
    FaultKind.WEBHOOK_LATE: _Kind("an event is sent --seconds late, after those that follow it", seconds=5),
    FaultKind.WEBHOOK_UNSIGNED: _Kind("an event is sent without signature"),
}


def known(kind: str) -> FaultKind:
    """The fault of that name.

    Raises:
        UsageError: There is none.
    """
    if kind not in set(FaultKind):
        raise unknown_name("fault", kind, FaultKind)
    return FaultKind(kind)
