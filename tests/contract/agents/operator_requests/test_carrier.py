"""Requests of the served console's operators: who proves to be whom, and each is carried out once."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from hermesops.access.sign_in.operator_tokens import OperatorClaims, OperatorTokens
from hermesops.access.sign_in.signed_tokens import InvalidTokenError, SignedTokens, TrustedIssuer
from hermesops.agents.operator_requests import carrier as carrier_module
from hermesops.agents.operator_requests.carrier import PROOF_S, OperatorRequestCarrier
from hermesops.agents.rollout.operators.service import asked_for
from hermesops.agents.rollout.records.directory import Rollouts
from hermesops.agents.rollout.records.events import Recorded, StateChanged, to_row
from hermesops.base.waiting import Pending, until
from hermesops.console.actions import operations
from hermesops.console.actions.action import Preview
from hermesops.console.actions.served import action_of, preview_of
from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.localcloud.vendors.issuer import CONSOLE_CLIENT, OPERATORS, LocalIssuer
from hermesops.model.access.console_operator import ConsoleOperator, Groups
from hermesops.model.access.operator_request import (
    PREVIEW_STAYS,
    ROW_STAYS,
    NewOperatorRequest,
    OperatorRequest,
    OperatorRequestState,
    hint_of,
)
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.rollout.records import Rollout, RolloutState, TargetState
from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, Steps
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.runner import QUEUED
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.operator_links import MOST as MOST_LINKS
from hermesops.store.registry.repositories.operator_requests import MOST_EACH, OperatorRequestRows
from hermesops.store.registry.schema.operator_tables import operator_requests
from hermesops.views.agents import change_words
from tests.support.real.monitoring import alertmanager
from tests.support.real.stores.registries import TurnedClock, placed, registry_at
from tests.support.rollouts.rows import AT, NEW, OLD, STARTED_ROW, started, target_of
from tests.support.rollouts.service import connected_of
from tests.support.suite.prerequisites import require

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

    async def end(self, user: str, _termination: object, *, reason: str) -> Operation:
        self.ended.append(user)
        instance, intent = self.registry.instances.find(user), {"user": user, "reason": reason}
        kind, subject = OperationKind.SCHEDULE_TERMINATION, instance_subject(instance.id)
        return self.registry.operations.open(kind, subject, intent=intent, instance_id=instance.id)


@dataclass
class DryRequests:
    """The requests of commands for a dry run."""

    requests: Requests

    async def restart(self, user: str, *, reason: str) -> str:
        if self.requests.refusal:
            raise self.requests.refusal
        return f"{user}: {reason}"

    async def end(self, user: str, _termination: object, *, reason: str) -> str:
        return f"{user}: {reason}"


@dataclass
class Desk:
    """A worker, the console's rows, and an issuer in memory."""

    registry: Registry
    ada: Instance
    issuer: LocalIssuer
    requests: Requests
    is_away: bool = False
    alerts: Alerts | None = None

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
        connected = connected_of(self.registry, self.requests, DryRequests(self.requests))
        connected.container.alerts = lambda: self.alerts
        return OperatorRequestCarrier(
            registry=self.registry,
            operator_of=partial(tokens.operator_of, age_s=PROOF_S),
            host=HOST,
            find_action=partial(action_of, connected),
            hold_lease=lambda subject: LeaseKeeper(self.registry, subject),
        )

    def new(self, proof: str, action: str = "restart", **fields: Any) -> NewOperatorRequest:  # noqa: ANN401 - of the row
        """A request as the console writes it: about ada, in the name of otto."""
        request = NewOperatorRequest(OTTO.name, "instances", self.ada.id, action, {}, "a test", proof, is_preview=False)
        return replace(request, **fields)

    def add(self, proof: str, action: str = "restart", **fields: Any) -> str:  # noqa: ANN401 - of the row
        """Add a request, as the console does."""
        id_ = self.rows.add(self.new(proof, action, **fields))
        assert id_
        return id_

    async def decided(self, id_: str) -> OperatorRequest:
        """The request once a worker has looked."""
        await self.carrier().run()
        request = self.rows.get(id_)
        assert request
        return request


@pytest.fixture
def desk(registry_url: str, clock: TurnedClock, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(operations, "change_preview", lambda planned: {"planned": planned})
    monkeypatch.setattr(change_words, "sentences", lambda _: {})
    registry = registry_at(registry_url, clock=clock)
    return Desk(registry, placed(registry), LocalIssuer("http://issuer.test/issuer", list), Requests(registry))


async def test_a_request_opens_the_commands_operation_in_the_operators_name(desk: Desk) -> None:
    id_ = desk.add(desk.issuer.id_token(OTTO))
    assert desk.carrier().due() == ["restart for otto@local.test"]
    request = await desk.decided(id_)
    assert (request.state, request.proof) == (OperatorRequestState.OPENED, "")
    [operation] = desk.registry.operations.list(instance_id=desk.ada.id)
    assert (request.operation_id, request.answer) == (operation.id, f"operations/{operation.id}")
    assert operation.step == QUEUED, "it is left to the workers"
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
    assert (request.state, preview_of(request.answer).shape) == (
        OperatorRequestState.PREVIEWED,
        {"planned": "ada: dry run"},
    )
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
        lambda issuer: issuer.id_token(ADELE, auth_time=issuer._clock() + 60),
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


async def test_an_action_that_began_is_said_as_begun_though_its_proof_has_ended_since(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = desk.add(desk.issuer.id_token(ADELE), "terminate")
    with monkeypatch.context() as patched:
        patched.setattr(type(desk.registry.operator_requests), "decide", _die)
        with pytest.raises(_DeadError):
            await desk.carrier().run()
    monkeypatch.setattr(desk.issuer, "_clock", lambda: 0)
    carrier = desk.carrier()
    assert carrier.operator_of is not None
    late = replace(carrier, operator_of=_expired)
    await late.run()
    request = desk.rows.get(id_)
    assert request is not None
    assert (request.state, desk.requests.ended) == (OperatorRequestState.OPENED, ["ada"])


async def _expired(_token: str) -> ConsoleOperator:
    raise InvalidTokenError("the token has expired")


async def test_no_request_waits_for_a_preview_that_hangs_which_ends_as_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier_module, "_PREVIEW_S", 3.0)
    began = asyncio.Event()

    async def hang(*_: object, **__: object) -> Preview:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(operations.OperationWork, "preview", hang)
    token = desk.issuer.id_token(OTTO)
    preview = desk.add(token, is_preview=True)
    running = asyncio.ensure_future(desk.carrier().run())
    await began.wait()
    restart = desk.add(token)

    async def decided() -> OperatorRequest | Pending[OperatorRequest]:
        request = desk.rows.get(restart)
        return request if request and request.state is not OperatorRequestState.QUEUED else Pending("queued")

    assert (await until(decided, what="the restart begins", timeout_s=30, every_s=0.05)).state is (
        OperatorRequestState.OPENED
    )
    waiting = desk.rows.get(preview)
    assert waiting is not None
    assert waiting.state is OperatorRequestState.QUEUED, "the preview still hangs"
    await running
    request = desk.rows.get(preview)
    assert request is not None
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "unavailable")
    assert "takes longer than 3 s" in request.detail


class _DeadError(BaseException):
    """The process died here."""


def _die(*_: object) -> None:
    raise _DeadError


# Rollouts


def given(desk: Desk) -> list[tuple[str, str, str]]:
    """Verb, author and reason of each start and command of the rollouts."""
    return [
        (getattr(change, "verb", "start"), change.who, change.why)
        for rollout in desk.registry.rollouts.list()
        for _, change in Rollouts(desk.registry).changes(rollout.id)
        if change.who
    ]


async def test_a_command_to_a_rollout_is_previewed_and_given_in_the_operators_name(desk: Desk) -> None:
    started(desk.registry, desk.ada)
    token = desk.issuer.id_token(OTTO)
    preview = await desk.decided(desk.add(token, "pause", about="rollouts", subject="r1", is_preview=True))
    shape = preview_of(preview.answer).shape
    assert (preview.state, shape["from"], shape["to"]) == ("previewed", "pending", "paused")
    assert desk.registry.rollouts.find("").state is RolloutState.PENDING
    id_ = desk.add(token, "pause", about="rollouts", subject="r1")
    request = await desk.decided(id_)
    assert (request.state, request.answer, request.operation_id) == ("opened", "rollouts/r1", None), request.detail
    assert desk.registry.rollouts.find("").state is RolloutState.PAUSED
    assert given(desk)[-1] == ("pause", "otto@local.test@oidc:console.test", f"a test (console request {id_})")
    entries = desk.registry.audit.list(subject="rollout/r1")
    who = {entry.action: entry.who for entry in entries}
    assert who["rollout_changed"] == "otto@local.test@oidc:console.test via console"
    assert "operator_request_decided" in who
    again = await desk.decided(desk.add(token, "pause", about="rollouts", subject="r1"))
    assert (again.state, again.code, "cannot be paused" in again.detail) == ("refused", "refused", True)


FORM = {"release": NEW, "everybody": "on"}


@pytest.fixture
def running(desk: Desk) -> Desk:
    """With an agent that a rollout may choose."""
    desk.registry.instances.set_status(desk.ada.id, InstanceStatus.RUNNING, why="a test")
    desk.registry.rollout_targets.record_releases({desk.ada.id: OLD})
    return desk


async def test_a_rollout_is_previewed_and_started_once_in_the_operators_name(running: Desk) -> None:
    desk, token = running, running.issuer.id_token(OTTO)
    start: dict[str, Any] = {"action": "start-rollout", "about": "fleet", "subject": "", "form": FORM}
    preview = await desk.decided(desk.add(token, **start, is_preview=True))
    assert (preview.state, desk.registry.rollouts.list()) == ("previewed", ()), preview.detail
    assert preview_of(preview.answer).shape["canaries"] == ["ada"]
    request = await desk.decided(desk.add(token, **start))
    [rollout] = desk.registry.rollouts.list()
    assert (request.state, request.answer) == ("opened", f"rollouts/{rollout.id}"), request.detail
    assert rollout.who == "otto@local.test@oidc:console.test"
    [operation] = desk.registry.operations.list(unfinished=True)
    assert (operation.kind, operation.step) == (OperationKind.ROLLOUT, QUEUED)
    approval = asked_for(Rollouts(desk.registry).records(rollout.id), 1, "local")
    assert (approval.by, approval.is_proved) == (OTTO.name, True), "who starts a rollout approves no stage of it"


VERBS: Mapping[str, tuple[RolloutState, Mapping[str, str]]] = {
    "pause": (RolloutState.RUNNING, {}),
    "resume": (RolloutState.PAUSED, {}),
    "promote": (RolloutState.RUNNING, {}),
    "abort": (RolloutState.RUNNING, {}),
    "retry": (RolloutState.HALTED, {}),
    "roll-back": (RolloutState.HALTED, {}),
    "start-rollout": (RolloutState.ABORTED, FORM),
}


@pytest.mark.parametrize(("action", "before", "form"), [(verb, *values) for verb, values in VERBS.items()], ids=VERBS)
async def test_a_worker_that_died_after_a_command_gives_no_second_one(
    running: Desk,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    before: RolloutState,
    form: Mapping[str, str],
) -> None:
    desk = running
    row = started(desk.registry, desk.ada)
    failed = replace(target_of(desk.ada), state=TargetState.FAILED)
    assert desk.registry.rollouts.change(row, replace(row, state=before), STARTED_ROW, targets=[failed])
    if before.has_ended:
        end(desk, row)
    about, subject = ("fleet", "") if action == "start-rollout" else ("rollouts", "r1")
    token = desk.issuer.id_token(OTTO)
    id_ = desk.add(token, action, about=about, subject=subject, form=form)
    with monkeypatch.context() as patched:
        patched.setattr(type(desk.registry.operator_requests), "decide", _die)
        with pytest.raises(_DeadError):
            await desk.carrier().run()
    of_request = [line for line in given(desk) if line[2] == f"a test (console request {id_})"]
    assert len(of_request) == 1
    for rollout in desk.registry.rollouts.list():
        if action == "start-rollout" and rollout.id != "r1":
            end(desk, rollout)  # an equal request would begin anew
    request = await desk.decided(id_)
    assert request.state is OperatorRequestState.OPENED, request.detail
    assert [line for line in given(desk) if line[2] == f"a test (console request {id_})"] == of_request
    assert len(desk.registry.rollouts.list()) == (2 if action == "start-rollout" else 1)


async def test_a_freeze_is_begun_once_and_ended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    token = desk.issuer.id_token(OTTO)
    id_ = desk.add(token, "freeze", about="fleet", subject="", form={"until": "12h"})
    with monkeypatch.context() as patched:
        patched.setattr(type(desk.registry.operator_requests), "decide", _die)
        with pytest.raises(_DeadError):
            await desk.carrier().run()
    assert (await desk.decided(id_)).answer == "rollouts"
    [freeze] = desk.registry.freezes.list()
    assert (freeze.who, freeze.reason) == ("otto@local.test@oidc:console.test", f"a test (console request {id_})")
    assert freeze.ends_at is not None
    ended = await desk.decided(desk.add(token, "unfreeze", about="freezes", subject=freeze.id))
    assert (ended.state, desk.registry.freezes.list()) == (OperatorRequestState.OPENED, ()), ended.detail


async def test_the_longest_values_of_a_page_fit_a_row(desk: Desk) -> None:
    form = {f"field{number}": "\U0001f600" * 500 for number in range(13)}
    request = await desk.decided(desk.add(desk.issuer.id_token(OTTO), form=form))
    assert (request.state, "does not accept the value 'field0'" in request.detail) == (
        OperatorRequestState.REFUSED,
        True,
    )


HOSTILE: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a value that only commands take": ({"form": {**FORM, "emergency": "x"}}, "does not accept the value 'emergency'"),
    "a value of another action": ({"form": {**FORM, "lose": "on"}}, "does not accept the value 'lose'"),
    "a value that is no choice": ({"form": {**FORM, "drill": "x"}}, "one of"),
    "a value with invisible characters": ({"form": {"release": "a\u202eb"}}, "all of them visible"),
    "a value that is too long": ({"form": {"release": "x" * 501}}, "at most 500 characters"),
    "a value that is no text": ({"form": {"release": ["x"]}}, "no values of a page"),
    "no release": ({"form": {"everybody": "on"}}, "missing"),
    "another kind of subject": ({"about": "rollouts", "subject": "r1"}, "has no change 'start-rollout'"),
    "a rollout that there is not": ({"action": "pause", "about": "rollouts", "subject": "x"}, "no rollout 'x'"),
    "an action that is not offered": ({"action": "up-saved", "form": {}}, "has no change 'up-saved'"),
    "a question that there is not": ({"action": "platform", "about": "questions", "form": {}}, "has no change"),
    "a question's filter": ({"action": "drift", "about": "questions", "form": {"x": "y"}}, "a question changes"),
    "a question's filter to read by": (
        {"action": "drift", "about": "questions", "form": {"x": "y"}, "is_preview": True},
        "has no filter 'x'",
    ),
    "a question of a viewer": (
        {"action": "drift", "about": "questions", "form": {}, "is_preview": True, "proof": VERA},
        "needs the role operator, not viewer",
    ),
    "a link to another website": (
        {"action": "keep", "about": "links", "form": {"name": "x", "page": "https://evil.test/"}},
        "only pages of the console can be saved",
    ),
    "a link of somebody else": (
        {"action": "keep", "about": "links", "form": {"name": "x", "page": "alerts", "operator": "adele"}},
        "a link has a name and a page",
    ),
    "a link without a name": (
        {"action": "keep", "about": "links", "form": {"page": "alerts"}},
        "a name needs 1 to 60 visible characters",
    ),
    "a preview of a link": (
        {"action": "keep", "about": "links", "form": {"name": "x", "page": "alerts"}, "is_preview": True},
        "a link has no preview",
    ),
    "a link with a NUL that is forgotten": (
        {"action": "forget", "about": "links", "form": {"name": "a\0b"}},
        "a name needs 1 to 60 visible characters",
    ),
    "a question's filter with a NUL": (
        {"action": "drift", "about": "questions", "form": {"where": "user=a\0b"}, "is_preview": True},
        "all of them visible",
    ),
    "another change of links": ({"action": "erase", "about": "links", "form": {}}, "has no change 'erase'"),
    "at once": (
        {"action": "terminate", "about": "instances", "proof": ADELE, "form": {"now": "on"}},
        "does not accept the value 'now'",
    ),
    "losses": (
        {"action": "roll-back", "about": "rollouts", "subject": "r1", "form": {"lose": "on"}},
        "does not accept the value 'lose'",
    ),
}


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("fields", "words"), HOSTILE.values(), ids=HOSTILE)
async def test_a_row_with_values_that_no_page_sends_is_refused(
    desk: Desk, fields: Mapping[str, Any], words: str
) -> None:
    started(desk.registry, desk.ada)
    start = {"action": "start-rollout", "about": "fleet", "subject": "", "form": FORM}
    given_fields = {**start, **fields}
    if given_fields["about"] == "instances":
        given_fields["subject"] = desk.ada.id
    proof = desk.issuer.id_token(given_fields.pop("proof", OTTO))
    before = desk.registry.rollouts.list()
    request = await desk.decided(desk.add(proof, **given_fields))
    assert (request.state, words in request.detail) == (OperatorRequestState.REFUSED, True), request.detail
    assert (desk.registry.rollouts.list(), desk.requests.ended) == (before, [])
    assert [desk.registry.operator_links.list(operator.name) for operator in OPERATORS] == [(), (), ()]


def test_requests_and_links_at_once_pass_no_limit(desk: Desk) -> None:
    token, links = desk.issuer.id_token(OTTO), desk.registry.operator_links

    def keep(number: int) -> bool:
        try:
            links.keep(OTTO.name, f"link {number}", "alerts")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(12) as threads:
        added = list(threads.map(lambda _: desk.rows.add(desk.new(token)), range(24)))
        kept = list(threads.map(keep, range(30)))
    assert len([id_ for id_ in added if id_]) == MOST_EACH == len(desk.registry.operator_requests.due())
    assert kept.count(True) == MOST_LINKS == len(links.list(OTTO.name))


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("form", ["", "[", "[]", "{" * 5000, '"x"', "x" * 20_000])
async def test_a_form_that_is_no_object_of_texts_is_refused(desk: Desk, form: str) -> None:
    id_ = desk.add(desk.issuer.id_token(OTTO))
    with desk.registry._database.writing() as connection:
        connection.execute(operator_requests.update().values(form=form))
    request = await desk.decided(id_)
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "usage")
    assert desk.requests.opened == []


@pytest.mark.parametrize(
    ("about", "action"), [("instances", "restart"), ("rollouts", "pause"), ("freezes", "unfreeze"), ("fleet", "freeze")]
)
@pytest.mark.parametrize("subject", ["x", "", "\u202e/../x", "'" * 128, "00000000-0000-4000-8000-000000000000"])
async def test_a_subject_that_there_is_not_is_refused_and_no_error_of_the_database(
    desk: Desk, about: str, action: str, subject: str
) -> None:
    id_ = desk.add(desk.issuer.id_token(OTTO))
    with desk.registry._database.writing() as connection:
        values = {"about": about, "action": action, "subject": subject, "instance_id": None}
        connection.execute(operator_requests.update().values(values))
    request = await desk.decided(id_)
    if about == "fleet":
        assert request.state is OperatorRequestState.OPENED, "an environment has one fleet"
    else:
        assert (request.state, request.code) == (OperatorRequestState.REFUSED, "usage"), request.detail
    assert desk.requests.opened == []


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_rollback_needs_a_recent_sign_in_and_no_other_command(desk: Desk) -> None:
    started(desk.registry, desk.ada)
    old = desk.issuer.id_token(OTTO, auth_time=desk.issuer._clock() - 3600)
    of_rollout = {"about": "rollouts", "subject": "r1"}
    refused = await desk.decided(desk.add(old, "roll-back", **of_rollout))
    assert (refused.state, "a sign-in of the last 10 minutes" in refused.detail) == ("refused", True)
    assert (await desk.decided(desk.add(old, "roll-back", **of_rollout, is_preview=True))).state == "previewed"
    assert (await desk.decided(desk.add(old, "pause", **of_rollout))).state == "opened"
    viewer = await desk.decided(desk.add(desk.issuer.id_token(VERA), "resume", **of_rollout))
    assert (viewer.state, "needs the role operator, not viewer" in viewer.detail) == ("refused", True)
    assert (await desk.decided(desk.add(desk.issuer.id_token(OTTO), "roll-back", **of_rollout))).state == "opened"


def end(desk: Desk, rollout: Rollout) -> None:
    """End a rollout and its operation, as its runner does."""
    now = desk.registry.rollouts.get(rollout.id)
    event = to_row(Recorded(AT, StateChanged(now.state, RolloutState.ABORTED)))
    assert desk.registry.rollouts.change(now, replace(now, state=RolloutState.ABORTED), event)
    for operation in desk.registry.operations.list(unfinished=True):
        desk.registry.operations.finish(operation.id, OperationStatus.DONE, "aborted")


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_an_issuer_that_is_away_refuses_a_request_for_now(desk: Desk) -> None:
    desk.is_away = True
    request = await desk.decided(desk.add(desk.issuer.id_token(OTTO)))
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "unavailable")


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "a\u202eb", "a\nb"])
async def test_a_reason_that_no_page_sends_is_refused(desk: Desk, reason: str) -> None:
    request = await desk.decided(desk.add(desk.issuer.id_token(OTTO), reason=reason))
    assert (request.state, request.code) == (OperatorRequestState.REFUSED, "usage")


async def test_an_operator_has_few_requests_that_nobody_decided(desk: Desk) -> None:
    token = desk.issuer.id_token(OTTO)
    for _ in range(MOST_EACH):
        desk.add(token, is_preview=True)
    assert desk.rows.add(desk.new(token)) is None
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


async def test_a_link_is_kept_for_who_is_proved_and_not_for_who_is_named(desk: Desk) -> None:
    link = {"about": "links", "subject": "", "form": {"name": "down", "page": "?health=down"}}
    request = await desk.decided(desk.add(desk.issuer.id_token(VERA), "keep", operator=ADELE.name, **link))
    assert (request.state, request.answer) == (OperatorRequestState.OPENED, "more"), request.detail
    links = desk.registry.operator_links
    assert [links.list(operator.name) for operator in OPERATORS] == [(("down", "?health=down"),), (), ()]
    await desk.decided(desk.add(desk.issuer.id_token(ADELE), "forget", operator=VERA.name, **link))
    assert links.list(VERA.name) != ()
    await desk.decided(desk.add(desk.issuer.id_token(VERA), "forget", **link))
    assert links.list(VERA.name) == ()


@pytest.fixture
def alerting(desk: Desk, clock: TurnedClock, tmp_path: Path) -> Iterator[Desk]:
    """With an alert of ada in a real Alertmanager, which refuses silences of the past."""
    clock.timestamp = datetime.now(UTC)
    programs = alertmanager.programs()
    require(programs, "Alertmanager: apt-get install prometheus-alertmanager, or apt-get download")
    assert programs is not None
    with alertmanager.running(tmp_path, programs) as url:
        labels = {"alertname": "GatewayDown", "severity": "page", "instance_id": desk.ada.id}
        alert = {"labels": labels, "annotations": {"summary": "it is down"}}
        httpx.post(f"{url}/alertmanager/api/v2/alerts", json=[alert], trust_env=False).raise_for_status()
        desk.alerts = Alerts(desk.registry, MonitoringClient(url), lambda _: Steps.NONE)
        yield desk


@pytest.mark.parametrize(
    ("request_of_alert", "action"),
    [
        ({"action": "acknowledge", "about": "alerts", "subject": "GatewayDown", "form": {}}, "alert_acknowledged"),
        ({"action": "silence", "about": "fleet", "subject": "", "form": {"where": "user=ada"}}, "alert_silenced"),
    ],
)
@pytest.mark.parametrize("is_noted", [False, True])
async def test_an_alert_is_acknowledged_or_silenced_once_in_the_operators_name(
    alerting: Desk, monkeypatch: pytest.MonkeyPatch, request_of_alert: Mapping[str, Any], action: str, *, is_noted: bool
) -> None:
    desk, token = alerting, alerting.issuer.id_token(OTTO)
    assert desk.alerts is not None
    preview = await desk.decided(desk.add(token, **request_of_alert, is_preview=True))
    assert [row["alert"] for row in preview_of(preview.answer).shape["alerts"]] == ["GatewayDown"], preview.detail
    assert await desk.alerts.silences() == ()
    id_ = desk.add(token, **request_of_alert)
    with monkeypatch.context() as patched:
        patched.setattr(
            *((type(desk.registry.operator_requests), "decide", _die) if is_noted else (Alerts, "_note", _die))
        )
        with pytest.raises(_DeadError):
            await desk.carrier().run()
    decided = await desk.decided(id_)
    assert (decided.state, decided.answer) == (OperatorRequestState.OPENED, "alerts"), decided.detail
    [silence] = await desk.alerts.silences()
    reason = f"a test (console request {id_})"
    assert (silence.comment.endswith(reason), silence.who) == (True, "otto@local.test@oidc:console.test")
    noted = [entry for entry in desk.registry.audit.list() if entry.why == reason]
    assert [(entry.action, entry.who) for entry in noted] == [(action, "otto@local.test@oidc:console.test via console")]
    assert noted[0].subject == instance_subject(desk.ada.id)
