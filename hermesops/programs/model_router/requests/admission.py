"""Admission of requests to a model: token, instance and monthly budget; and the answers to refused requests."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from hermesops.model.billing.model_usage import NOTHING, Account, Spent
from hermesops.model.billing.route import ModelToken, read_token, refusal_of
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.account_cache import AccountCache
from hermesops.programs.model_router.requests.prices import Prices

_BEARER = "Bearer "
_PER_DOLLAR = 1_000_000
_ENDLESS = 1 << 60


@dataclass(frozen=True)
class Refused:
    """An answer instead of a model's.

    Attributes:
        kind: OpenAI's ``type``; clients tell by it and by ``code`` whether to ask again.
        retry_after_s: Seconds after which it may be different; 0 where that is not known.
    """

    status: int
    code: str
    message: str
    kind: str = "invalid_request_error"
    retry_after_s: int = 0
    param: str | None = None

    def body(self) -> dict[str, object]:
        """The error in the shape of OpenAI's API."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Reserved:
    """An admitted request.

    Attributes:
        reservation: Its id; empty without a budget.
        output_tokens: Limit of the answer, in tokens.
    """

    reservation: str
    output_tokens: int


class Admission:
    """Authenticates requests and checks their budget.

    Args:
        secrets: Keys that sign tokens; the newest first, older ones while their tokens are replaced.
        accounts: Accounts in the registry; ``None`` for a router without a registry.
        check_address: Whether a token is only valid from its instance's own machine.
        clock: Unix seconds.
    """

    def __init__(
        self,
        secrets: Sequence[bytes],
        accounts: AccountCache | None,
        *,
        check_address: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._check_address = check_address
        self._clock = clock

    async def caller(self, authorization: str, address: str = "") -> InstanceId | Refused:
        """The instance of a request with a valid token, or the refusal.

        Args:
            authorization: The header.
            address: Address of the client.
        """
        token = self._token(authorization)
        if token is None:
            return _unauthorized("no token of this router")
        if expired := refusal_of(token, floor=token.generation, now=self._clock()):
            return _unauthorized(expired.value)  # whatever the registry would say of it
        if self._accounts is None:
            account: Account | None = Account(token.generation)
        elif not self._accounts.are_known:
            # Not 401: the token may well be good, and the agent asks again.
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "503", "revoked tokens are not known now", retry_after_s=5)
        else:
            account = await self._accounts.of_newest(token.instance_id)
        why = refusal_of(token, floor=account.floor if account else None, now=self._clock())
        if why or account is None:
            return _unauthorized(str(why))
        if self._check_address and account.address and account.address != address:
            return _unauthorized("sent from another machine")
        return token.instance_id

    def over_budget(self, instance_id: InstanceId) -> Refused | None:
        """The refusal of an instance that has used up its month's budget."""
        account = self._accounts.of(instance_id) if self._accounts else None
        if account is None:
            return None
        spent, micros, tokens = account.spent, account.budget_micros, account.budget_tokens
        if micros is not None and spent.micros >= micros:
            used = f"{spent.micros / _PER_DOLLAR:.2f} of {micros / _PER_DOLLAR:.2f} USD"
        elif tokens is not None and spent.tokens >= tokens:
            used = f"{spent.tokens:,} of {tokens:,} tokens"
        else:
            return None
        message = f"this month's budget for models is used up: {used}; it starts anew on {self._again} UTC"
        return Refused(HTTPStatus.TOO_MANY_REQUESTS, "insufficient_quota", message, kind="insufficient_quota")

    def longest(self, instance_id: InstanceId, by_plan: Mapping[str, int]) -> int:
        """Limit of an answer to an instance, in tokens, by its plan; the lowest limit if the plan is unknown."""
        account = self._accounts.of(instance_id) if self._accounts else None
        return by_plan.get(account.plan if account else "", min(by_plan.values()))

    def reserve(self, instance_id: InstanceId, tokens: tuple[int, int, int], prices: Prices) -> Reserved | Refused:
        """Reserve the highest cost of a request, with an answer limited to the remaining budget.

        Args:
            tokens: Of the input, of the answer, and the fewest of an answer that is worth asking for; each at most.
        """
        read, written, least = tokens
        account = self._accounts.of(instance_id) if self._accounts else None
        if account is None or self._accounts is None:
            return Reserved("", written)
        if refused := self.over_budget(instance_id):
            return refused
        reserved = self._accounts.reservations.of(instance_id)
        affordable = min(written, prices.affordable(_left(account, reserved), read))
        if affordable < least:
            return self._too_dear(prices.most(read, least), has_others=reserved != NOTHING)
        most = prices.most(read, affordable)
        return Reserved(self._accounts.reservations.hold(instance_id, most), affordable)

    def answered(self, reserved: Reserved, *, is_free: bool) -> None:
        """End the reservation of a request; ``is_free``: its answer cost nothing."""
        if self._accounts:
            self._accounts.reservations.answered(reserved.reservation, is_free=is_free)

    @property
    def _again(self) -> str:
        """The day on which budgets start anew."""
        return time.strftime("%Y-%m-%d", _first_of_next_month(self._clock()))

    def _too_dear(self, most: Spent, *, has_others: bool) -> Refused:
        worst = f"this request may cost up to {most.micros / _PER_DOLLAR:.2f} USD or {most.tokens:,} tokens"
        if has_others:
            message = f"{worst}, more than open requests of this agent leave of the month's budget"
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_at_once", message, "rate_limit_error", 5)
        message = f"{worst}, more than is left of the month's budget, which starts anew on {self._again} UTC"
        return Refused(HTTPStatus.TOO_MANY_REQUESTS, "insufficient_quota", message, kind="insufficient_quota")

    def _token(self, authorization: str) -> ModelToken | None:
        if not authorization.startswith(_BEARER):
            return None
        text = authorization.removeprefix(_BEARER)
        return next((token for secret in self._secrets if (token := read_token(secret, text))), None)


def _left(account: Account, reserved: Spent) -> Spent:
    """The remaining budget of an instance; practically endless without a limit."""
    tokens, micros = account.budget_tokens, account.budget_micros
    return Spent(
        (_ENDLESS if tokens is None else tokens - account.spent.tokens) - reserved.tokens,
        (_ENDLESS if micros is None else micros - account.spent.micros) - reserved.micros,
    )


def _first_of_next_month(now: float) -> time.struct_time:
    today = time.gmtime(now)
    year, month = (today.tm_year + 1, 1) if today.tm_mon == 12 else (today.tm_year, today.tm_mon + 1)  # noqa: PLR2004 - December
    return time.strptime(f"{year}-{month:02}-01", "%Y-%m-%d")


def _unauthorized(why: str) -> Refused:
    return Refused(HTTPStatus.UNAUTHORIZED, "401", f"Invalid proxy server token passed: {why}")


def unknown_model(model: str) -> Refused:
    """The refusal of a request for an unknown model.

    400, not 404: LiteLLM answers so, and operators know it as the symptom.
    """
    message = f"Invalid model name passed in model={model[:100]}. Call `/v1/models` to view available models"
    return Refused(HTTPStatus.BAD_REQUEST, "model_not_found", message, param="model")


def bad_request(message: str = "model and messages are required") -> Refused:
    """The refusal of a malformed request for a completion."""
    return Refused(HTTPStatus.BAD_REQUEST, "bad_request", message)


def parsed(raw: object) -> tuple[str, Mapping[str, object]] | Refused:
    """The model and the fields of a decoded completion request, or the refusal."""
    if not isinstance(raw, dict) or "model" not in raw or not isinstance(raw.get("messages"), list):
        return bad_request()
    return str(raw["model"]), raw
