"""Requests of the served console's operators: who proves to be whom, and each is carried out once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from starlette.requests import Request

from hermesops.access.sign_in.operator_tokens import OperatorClaims, OperatorTokens
from hermesops.access.sign_in.signed_tokens import SignedTokens, TrustedIssuer
from hermesops.agents.operator_requests.carrier import PROOF_S, OperatorRequestCarrier
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.localcloud.vendors.issuer import CONSOLE_CLIENT, OPERATORS, LocalIssuer
from hermesops.model.access.console_operator import Groups
from hermesops.model.access.operator_request import (
    PREVIEW_STAYS,
    ROW_STAYS,
    OperatorRequest,
    OperatorRequestState,
    hint_of,
)
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import instance_subject
from hermesops.model.operation import Operation, OperationKind
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.operator_requests import MOST_EACH, OperatorRequestRows
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

HOST = "console.test"
VERA, OTTO, ADELE = OPERATORS
HINT = Hint(("instance", "resume", "ada"), "first")


@dataclass
class Requests:
    """The requests of commands, as far as a worker opens operations by them."""

    registry: Registry
    refusal: Exception | None = None
    opened: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def restart(self, user: str, *, reason: str) -> Operation:
        if self.refusal:
            raise self.refusal
        self.opened.append(user)
        instance = self.registry.instances.find(user)
        intent = {"user": user, "reason": reason}
        subject = instance_subject(instance.id)
        return self.registry.operations.open(OperationKind.RESTART, subject, intent=intent, instance_id=instance.id)

    async def schedule_termination(self, user: str, *, reason: str) -> Operation:
        self.ended.append(user)
        instance, intent = self.registry.instances.find(user), {"user": user, "reason": reason}
        kind, subject = OperationKind.SCHEDULE_TERMINATION, instance_subject(instance.id)
        return self.registry.operations.open(kind, subject, intent=intent, instance_id=instance.id)


@dataclass
class Desk:
    """A worker, the console's rows, and an issuer in memory."""

    registry: Registry
    ada: Instance
    issuer: LocalIssuer
    requests: Requests
    left: list[Operation] = field(default_factory=list)
    is_away: bool = False

    async def keys(self) -> Mapping[str, Any]:
        if self.is_away:
            raise UnavailableError("the issuer of tokens does not answer")
        response = await self.issuer._keys(Request({"type": "http"}))
        keys: Mapping[str, Any] = json.loads(bytes(response.body))
        return keys

    @property
    def rows(self) -> OperatorRequestRows:
        return OperatorRequestRows(self.registry._database)

    def carrier(self) -> OperatorRequestCarrier:
        groups = Groups({"viewers"}, {"operators"}, {"admins"})
        claims = OperatorClaims(CONSOLE_CLIENT, "email", "groups", groups)
        tokens = OperatorTokens(SignedTokens([TrustedIssuer(self.issuer.url, self.keys)]), claims)
        requests: Any = self.requests

        async def preview(_action: object, user: str) -> str:
            if self.requests.refusal:
                raise self.requests.refusal
            return json.dumps({"user": user})

        return OperatorRequestCarrier(
            registry=self.registry,
            operator_of=partial(tokens.operator_of, age_s=PROOF_S),
            host=HOST,
            requests=lambda: requests,
            preview=preview,
            leave=self.left.append,
            hold_lease=lambda subject: LeaseKeeper(self.registry, subject),
        )

    def add(self, proof: str, action: str = "restart", *, operator: str = OTTO.name, is_preview: bool = False) -> str:
        """Add a request, as the console does."""
        id_ = self.rows.add(operator, action, self.ada.id, "a test", proof, is_preview=is_preview)
        assert id_
        return id_

    async def decided(self, id_: str) -> OperatorRequest:
        """The request once a worker has looked."""
        await self.carrier().run()
        request = self.rows.get(id_)
        assert request
        return request


@pytest.fixture
def desk(registry_url: str, clock: TurnedClock) -> Desk:
    registry = registry_at(registry_url, clock=clock)
    return Desk(registry, placed(registry), LocalIssuer("http://issuer.test/issuer", list), Requests(registry))


async def test_a_request_opens_the_commands_operation_in_the_operators_name(desk: Desk) -> None:
    id_ = desk.add(desk.issuer.id_token(OTTO))
    assert desk.carrier().due() == ["restart for otto@local.test"]
    request = await desk.decided(id_)
    assert (request.state, request.proof) == (OperatorRequestState.OPENED, "")
    [operation] = desk.registry.operations.list(instance_id=desk.ada.id)
    assert (request.operation_id, desk.left) == (operation.id, [operation])
    assert operation.intent == {"user": "ada", "reason": f"a test (console request {id_})"}
    entries = desk.registry.audit.list(subject=instance_subject(desk.ada.id))
    of_request = [entry for entry in entries if entry.who == "otto@local.test@oidc:console.test via console"]
    assert [entry.action for entry in of_request][:1] == ["operation_opened"]
    [decided] = [entry for entry in entries if entry.action == "operator_request_decided"]
    assert (decided.after["operation"], decided.why) == (operation.id, "a test")
    row = desk.registry.operator_requests.get(id_)
    assert row
    assert row.proof == "", "the token is dropped with the decision"
    assert desk.carrier().due() == []


async def test_a_preview_changes_nothing(desk: Desk) -> None:
    before = desk.registry.audit.list()
    request = await desk.decided(desk.add(desk.issuer.id_token(OTTO), is_preview=True))
    assert (request.state, json.loads(request.answer)) == (OperatorRequestState.PREVIEWED, {"user": "ada"})
    assert desk.registry.operations.list(instance_id=desk.ada.id) == ()
    assert [entry for entry in desk.registry.audit.list() if entry not in before] == []


async def test_a_refusal_is_the_commands_with_its_hint(desk: Desk) -> None:
    desk.requests.refusal = RefusedError("it is suspended", hint=HINT)
    for is_preview in (False, True):
        request = await desk.decided(desk.add(desk.issuer.id_token(OTTO), is_preview=is_preview))
        assert (request.state, request.code, request.detail) == ("refused", "refused", "it is suspended")
        assert hint_of(json.loads(request.answer)) == HINT
    desk.requests.refusal = UnavailableError("its machine does not answer")
    assert (await desk.decided(desk.add(desk.issuer.id_token(OTTO)))).code == "unavailable"


REFUSED: Mapping[str, tuple[Callable[[LocalIssuer], str], str, str]] = {
    "no token": (lambda _: "", "restart", "malformed"),
    "a viewer's": (lambda issuer: issuer.id_token(VERA), "restart", "needs the role operator, not viewer"),
    "an operator's for an admin's change": (lambda issuer: issuer.id_token(OTTO), "terminate", "needs the role admin"),
    "an admin's who signed in an hour ago": (
        lambda issuer: issuer.id_token(ADELE, auth_time=issuer._clock() - 3600),
        "terminate",
        "needs a sign-in of the last 10 minutes",
    ),
    "an admin's whose sign-in has no time": (
        lambda issuer: issuer.id_token(ADELE, auth_time=None),
        "terminate",
        "needs a sign-in of the last 10 minutes",
    ),
    "an admin's whose sign-in is to come": (
        lambda issuer: issuer.id_token(ADELE, auth_time=issuer._clock() + 3600),
        "terminate",
        "needs a sign-in of the last 10 minutes",
    ),
    "of no group": (lambda issuer: issuer.id_token(ADELE, groups=[]), "restart", "in no group"),
    "of a user": (lambda issuer: issuer.access_token(ADELE), "restart", "another client"),
    "an access token of the console": (
        lambda issuer: issuer.access_token(ADELE, client_id=CONSOLE_CLIENT, aud=CONSOLE_CLIENT),
        "restart",
        "another client",
    ),
    "of another client": (lambda issuer: issuer.id_token(ADELE, aud="other"), "restart", "another client"),
    "expired": (lambda issuer: issuer.id_token(ADELE, exp=1), "restart", "expired"),
    "of another issuer": (lambda issuer: issuer.id_token(ADELE, iss="https://other.test"), "restart", "another issuer"),
    "of another issuer's key": (
        lambda issuer: LocalIssuer(issuer.url, list).id_token(ADELE),
        "restart",
        "has no such key",
    ),
    "cut": (lambda issuer: issuer.id_token(ADELE)[:-4], "restart", "not proved"),
    "for a change that there is not": (lambda issuer: issuer.id_token(ADELE), "erase", "has no change 'erase'"),
}


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("token", "action", "words"), REFUSED.values(), ids=REFUSED)
async def test_whoever_writes_rows_acts_for_nobody_who_did_not_prove_to_be_there(
    desk: Desk, token: Callable[[LocalIssuer], str], action: str, words: str
) -> None:
    request = await desk.decided(desk.add(token(desk.issuer), action, operator=ADELE.name))
    assert (request.state, words in request.detail) == (OperatorRequestState.REFUSED, True), request.detail
    assert desk.registry.operations.list(instance_id=desk.ada.id) == ()
    [entry] = [each for each in desk.registry.audit.list() if each.action == "operator_request_decided"]
    assert entry.who == "tester", "nobody is named who did not prove it"


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_what_destroys_needs_a_recent_sign_in_and_its_preview_and_other_changes_do_not(desk: Desk) -> None:
    old = desk.issuer.id_token(ADELE, auth_time=desk.issuer._clock() - 3600)
    assert (await desk.decided(desk.add(old, "terminate", is_preview=True))).state is OperatorRequestState.PREVIEWED
    assert (await desk.decided(desk.add(old))).state is OperatorRequestState.OPENED
    ended = await desk.decided(desk.add(desk.issuer.id_token(ADELE), "terminate"))
    assert (ended.state, desk.requests.ended) == (OperatorRequestState.OPENED, ["ada"])


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_token_counts_for_a_quarter_of_an_hour_however_long_it_is_valid(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = desk.issuer.id_token(OTTO, exp=int(desk.issuer._clock()) + 100_000)
    carrier, now = desk.carrier(), desk.issuer._clock()
    assert carrier.operator_of is not None
    tokens: Any = carrier.operator_of.func.__self__  # type: ignore[attr-defined]  # functools.partial's
    for later, state in ((PROOF_S - 2, OperatorRequestState.OPENED), (PROOF_S + 2, OperatorRequestState.REFUSED)):
        monkeypatch.setattr(tokens, "_clock", lambda later=later: now + later)
        id_ = desk.add(token)
        await carrier.run()
        request = desk.rows.get(id_)
        assert request
        assert request.state is state


async def test_a_worker_that_died_after_it_opened_the_operation_opens_no_second_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = desk.add(desk.issuer.id_token(OTTO))
    with monkeypatch.context() as patched:
        patched.setattr(type(desk.registry.operator_requests), "decide", _die)
        with pytest.raises(_DeadError):
            await desk.carrier().run()
    assert desk.requests.opened == ["ada"]
    [operation] = desk.registry.operations.list(instance_id=desk.ada.id)
    request = await desk.decided(id_)
    assert (request.state, request.operation_id) == (OperatorRequestState.OPENED, operation.id)
    assert desk.requests.opened == ["ada"]


class _DeadError(BaseException):
    """The process died here."""


def _die(*_: object) -> None:
    raise _DeadError


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_an_issuer_that_is_away_refuses_a_request_for_now(desk: Desk) -> None:
    desk.is_away = True
    request = await desk.decided(desk.add(desk.issuer.id_token(OTTO)))
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "unavailable")


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "a\u202eb", "a\nb"])
async def test_a_reason_that_no_page_sends_is_refused(desk: Desk, reason: str) -> None:
    id_ = desk.rows.add(OTTO.name, "restart", desk.ada.id, reason, desk.issuer.id_token(OTTO), is_preview=False)
    assert id_
    request = await desk.decided(id_)
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "usage")


async def test_an_operator_has_few_requests_that_nobody_decided(desk: Desk) -> None:
    token = desk.issuer.id_token(OTTO)
    for _ in range(MOST_EACH):
        desk.add(token, is_preview=True)
    assert desk.rows.add(OTTO.name, "restart", desk.ada.id, "x", token, is_preview=False) is None
    assert desk.add(token, operator=ADELE.name)


async def test_rows_are_forgotten(desk: Desk, clock: TurnedClock) -> None:
    preview = desk.add(desk.issuer.id_token(OTTO), is_preview=True)
    change = desk.add(desk.issuer.id_token(OTTO))
    await desk.carrier().run()
    clock.turn((PREVIEW_STAYS + timedelta(seconds=1)).total_seconds())
    assert desk.carrier().due() == ["1 old request"]
    await desk.carrier().run()
    assert (desk.rows.get(preview), bool(desk.rows.get(change))) == (None, True)
    clock.turn(ROW_STAYS.total_seconds())
    await desk.carrier().run()
    assert desk.rows.get(change) is None
