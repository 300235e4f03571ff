"""The judgement of a provider's answer about a key. Pure; nothing that a provider wrote is shown."""

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.providers.provider import KeyCheck
from hermesops.vendor.model_providers.client import ProviderReply

_BAD_KEY = ("API_KEY_INVALID", "API key not valid")
"""In an answer with status 400 of Google, which answers 401 to no key. Source: Gemini API, troubleshooting."""

_NO_CREDIT = ("insufficient_quota", "insufficient_balance", "Insufficient Balance", "exceeded_current_quota_error")
"""In an answer with status 429 or 403 for an account without money, which no waiting helps. Source: error codes of
OpenAI, MiniMax, DeepSeek and Moonshot."""


class KeyOutcome(StrEnum):
    """What is known of a key."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """The judgement.

    Attributes:
        words: For the user; empty where it was accepted.
        field: Part of the choice that is at fault; empty where none is.
    """

    outcome: KeyOutcome
    words: str = ""
    field: str = ""


_ACCEPTED = Verdict(KeyOutcome.ACCEPTED)


def judge(choice: ProviderChoice, reply: ProviderReply) -> Verdict:
    """Judge a provider's answer."""
    title = choice.facts.title
    status, body = reply.status, str(reply.body)[:10_000]
    if status == HTTPStatus.OK:
        return _judge_content(choice, reply)
    has_no_credit = any(word in body for word in _NO_CREDIT)
    if status == HTTPStatus.PAYMENT_REQUIRED or (
        status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.FORBIDDEN} and has_no_credit
    ):
        return _refused(
            f"{title} accepts the key, and its account has no credit left: add credit there, then try again"
        )
    if status == HTTPStatus.UNAUTHORIZED or (
        status == HTTPStatus.BAD_REQUEST and any(word in body for word in _BAD_KEY)
    ):
        return _refused(f"{title} refuses the key: copy it again, or make another one there")
    if status == HTTPStatus.FORBIDDEN:
        return _refused(f"{title} does not let the key use this: look at the rights of the key there")
    if status == HTTPStatus.NOT_FOUND and choice.facts.check is KeyCheck.TURN and not choice.facts.needs_address:
        return _no_model(choice)
    words = {
        0: f"{title} could not be asked",
        HTTPStatus.NOT_FOUND: f"{title} has no API in the form of OpenAI's at this address, or not this model",
        HTTPStatus.TOO_MANY_REQUESTS: f"{title} answers too many requests now",
    }.get(status, f"{title} answers {status}, which says nothing of the key")
    return Verdict(KeyOutcome.UNKNOWN, words)


def _judge_content(choice: ProviderChoice, reply: ProviderReply) -> Verdict:
    title, body = choice.facts.title, reply.body if isinstance(reply.body, dict) else {}
    match choice.facts.check:
        case KeyCheck.MODELS:
            models = reply.models
            if models is None:
                return Verdict(KeyOutcome.UNKNOWN, f"{title} answers without a list of models")
            # A short name stands for its newest version, which alone is in some lists; a model of one's own in none.
            is_listed = any(name == choice.model or name.startswith(f"{choice.model}-") for name in models)
            return _ACCEPTED if is_listed else Verdict(KeyOutcome.UNKNOWN, _unlisted(choice))
        case KeyCheck.TURN:
            is_answer = isinstance(body.get("choices"), list)
            return _ACCEPTED if is_answer else Verdict(KeyOutcome.UNKNOWN, f"{title} answers in another form")
        case KeyCheck.KEY:
            data = body.get("data")
            if not isinstance(data, dict):
                return Verdict(KeyOutcome.UNKNOWN, f"{title} answers in another form")
            left = data.get("limit_remaining")
            if isinstance(left, int | float) and left <= 0:
                return _refused(f"the limit of this key at {title} is used up: raise it there, then try again")
            return _ACCEPTED


def _refused(words: str) -> Verdict:
    return Verdict(KeyOutcome.REFUSED, words)


def _unlisted(choice: ProviderChoice) -> str:
    return (
        f"{choice.facts.title} accepts the key, and lists no model {choice.model}; one is named {choice.facts.example}"
    )


def _no_model(choice: ProviderChoice) -> Verdict:
    words = f"{choice.facts.title} has no model {choice.model} for this key; a model is named as {choice.facts.example}"
    return Verdict(KeyOutcome.REFUSED, words, "model")
