"""The kinds of faults of the vendor that users have met. Pure.

Source: what the vendor's one public client works around, March to May 2026, and what its schema leaves open.
"""

from enum import StrEnum
from typing import Self

EDGE_S = 100
"""Seconds of silence after which the vendor's edge cuts a request.

Source: Cloudflare's error 524; the vendor's public client starts long work detached because of it, 2026.
"""


_NONE = range(0)
_SERVER_ERRORS = range(500, 600)


class FaultKind(StrEnum):
    """The kinds of faults of the vendor.

    Attributes:
        meaning: One line for people.
        statuses: Possible statuses of its answer, the usual one first; empty for a fixed answer.
        seconds: Seconds it is about unless ordered otherwise; 0 where it is not about any.
    """

    meaning: str
    statuses: range
    seconds: int

    # Orders
    CREATED_BUT_5XX = "create-5xx-but-created", "a new machine is made, and the answer is 500"
    PAYMENT_REQUIRED = "payment-required", "a new machine is refused with 402"
    UNPROCESSABLE = "unprocessable", "a new machine is refused with 422 about its disk"
    LOCATION_DISABLED = "location-disabled", "a new machine is refused with 422 about its region"
    SOLD_OUT = "sold-out", "a new machine is refused with 422, its size is not to be had now"
    # Answers about machines, images and backups
    NOT_FOUND = "not-found-for-a-while", "a machine that exists answers 404"
    READY_EARLY = "ready-before-bootstrapped", "a new machine is called ready before anything on it runs"
    ERROR_THEN_READY = "error-then-ready", "a new machine is called broken until it turns out well"
    STALE_STATUS = "stale-status", "a machine's answer has the status of before its last change"
    STALE_LIST = "stale-list", "the list of machines is the one of before the last order or deletion"
    OLDER_SHAPE = "older-shape", "a machine's answer has the shape of March 2026: ssh as text, fewer urls, no health"
    IMAGE_FAILS = "image-fails", "an image fails"
    IMAGE_EARLY = "image-ready-too-early", "an image is called ready some seconds before it can be booted", _NONE, 5
    BACKUP_FAILS = "backup-fails", "a backup fails"
    # Any call
    LOST_ANSWER = "lost-answer", "the call is carried out, and the connection drops instead of an answer"
    SERVER_ERROR = "server-error", "the call is refused with a 5xx, without an effect", _SERVER_ERRORS
    EDGE_ERROR = "edge-error", "the edge answers a page of HTML, and the call has no effect", range(502, 600)
    EDGE_ERROR_BUT_DONE = "edge-error-but-done", "the call is carried out, and the edge answers HTML", range(502, 600)
    RATE_LIMITED = "rate-limited", "the call is refused with 429, to be repeated after some seconds", _NONE, 1
    SLOW_ANSWER = "slow-answer", "the call is carried out at once and answered some seconds later", _NONE, 6
    KEY_REFUSED = "key-refused", "a good API key is refused with 401"
    BUSY = "busy", "a change of a machine is refused with 409, something else is being done to it"
    IGNORED = "accepted-and-ignored", "start, stop, reboot, resize or restore is accepted and never done"
    SILENCE_CUT = (
        "silence-cut",
        "a toolbox or proxy request that is silent for some seconds is cut; the machine continues it",
        _NONE,
        EDGE_S,
    )
    # The proxy
    PROXY_UNAUTHORISED = "proxy-unauthorised", "the proxy refuses a good token with 401, or 403", range(401, 404, 2)
    # The model router
    MODEL_FAILS = "model-fails", "the model answers a turn with a 5xx", _SERVER_ERRORS
    MODEL_LIMITED = "model-limited", "the model answers a turn with 429"
    # Messengers
    MESSENGER_FAILS = "messenger-fails", "a messenger answers the bot with a 5xx", range(502, 600)
    MESSENGER_HANGS = "messenger-hangs", "a messenger takes the bot's request and never answers"
    MESSENGER_REFUSES = "messenger-refuses-token", "a messenger answers the bot with 401, whatever its token is"
    # The platform's service for machines
    DATE_SHIFTED = "date-shifted", "machines get a time that is some seconds ahead, until it is cleared", _NONE, 42
    # Webhooks
    WEBHOOK_LOST = "webhook-lost", "an event is never sent"
    WEBHOOK_TWICE = "webhook-twice", "an event is sent twice"
    WEBHOOK_LATE = "webhook-late", "an event is sent some seconds late, after those that follow it", _NONE, 5
    WEBHOOK_UNSIGNED = "webhook-unsigned", "an event is sent without signature"

    def __new__(cls, value: str, meaning: str = "", statuses: range = _NONE, seconds: int = 0) -> Self:
        """Make a kind of its name and its attributes."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.meaning, kind.statuses, kind.seconds = meaning, statuses, seconds
        return kind
