"""What is done next about a connection."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.connections.connection import AccountStatus, Connection, ConnectionState, VendorAccount
from hermesops.model.ids import InstanceId, UserId
from hermesops.users.connections.decide import (
    EXPIRED,
    KEPT,
    NOT_AGREED,
    NOT_YOURS,
    REMOVED,
    SETTLING,
    Clean,
    Drop,
    Move,
    Seen,
    accounts_for_agent,
    comes_back,
    digest_of,
    next_step,
)
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATES = st.sampled_from(list(ConnectionState))
STATUSES = st.sampled_from(list(AccountStatus))


def connection(state: ConnectionState, **values: Any) -> Connection:  # noqa: ANN401 - fields of it
    connection = Connection(
        "id",
        UserId("ada"),
        InstanceId("i-1"),
        "gmail",
        state,
        account="ca_1",
        session="digest",
        created_at=NOW,
        changed_at=NOW,
        link_expires_at=NOW + timedelta(minutes=10),
    )
    return replace(connection, **values)


def account(status: AccountStatus, service: str = "gmail", user: str = "i-1") -> VendorAccount:
    return VendorAccount("ca_1", status, service, user)


@given(status=STATUSES)
def test_nothing_that_the_vendor_says_links_what_nobody_confirmed(status: AccountStatus) -> None:
    requested = connection(ConnectionState.REQUESTED)
    assert next_step(requested, account(status), has_agent=True, now=NOW) is None


@given(state=STATES, status=STATUSES, service=st.sampled_from(["gmail", "slack"]), user=st.sampled_from(["i-1", "i-2"]))
def test_only_an_active_account_of_this_agent_and_service_is_ever_linked(
    state: ConnectionState, status: AccountStatus, service: str, user: str
) -> None:
    step = next_step(connection(state), account(status, service, user), has_agent=True, now=NOW)
    if isinstance(step, Move) and step.state is ConnectionState.LINKED:
        assert (status, service, user) == (AccountStatus.ACTIVE, "gmail", "i-1")
        assert state in {ConnectionState.CONFIRMED, ConnectionState.EXPIRED}


@given(state=STATES, status=st.none() | STATUSES, age=st.integers(0, 10_000))
def test_without_its_agent_a_connection_goes_away(
    state: ConnectionState, status: AccountStatus | None, age: int
) -> None:
    current: Connection | None = connection(state)
    for _ in range(4):
        assert current
        vendor_account = account(status) if status else None
        match next_step(current, vendor_account, has_agent=False, now=NOW + timedelta(minutes=age)):
            case Move(state=after):
                current = replace(current, state=after)
            case Clean():
                current = replace(current, cleaned_at=NOW)
            case Drop():
                return
    raise AssertionError("it stays")


@each_case(
    "status, step",
    [
        (None, None),
        (AccountStatus.ACTIVE, Move(ConnectionState.LINKED)),
        (AccountStatus.PENDING, Seen()),
        (AccountStatus.FAILED, Move(ConnectionState.FAILED, NOT_AGREED)),
        (AccountStatus.EXPIRED, Move(ConnectionState.FAILED, NOT_AGREED)),
        (AccountStatus.GONE, Move(ConnectionState.FAILED, NOT_AGREED)),
    ],
    ids=str,
)
def test_a_confirmed_connection_follows_its_account(status: AccountStatus | None, step: object) -> None:
    confirmed = connection(ConnectionState.CONFIRMED)
    assert next_step(confirmed, account(status) if status else None, has_agent=True, now=NOW) == step


@each_case(
    "status, step",
    [
        (None, None),
        (AccountStatus.ACTIVE, Seen()),
        (AccountStatus.PENDING, Seen()),
        (AccountStatus.EXPIRED, Move(ConnectionState.EXPIRED, EXPIRED)),
        (AccountStatus.FAILED, Move(ConnectionState.EXPIRED, EXPIRED)),
        (AccountStatus.STOPPED, Move(ConnectionState.EXPIRED, REMOVED)),
        (AccountStatus.GONE, Move(ConnectionState.EXPIRED, REMOVED)),
    ],
    ids=str,
)
def test_a_linked_connection_follows_its_account_and_silence_changes_nothing(
    status: AccountStatus | None, step: object
) -> None:
    linked = connection(ConnectionState.LINKED)
    assert next_step(linked, account(status) if status else None, has_agent=True, now=NOW) == step


def test_an_account_that_is_active_again_is_linked_again() -> None:
    expired = connection(ConnectionState.EXPIRED)
    assert next_step(expired, account(AccountStatus.ACTIVE), has_agent=True, now=NOW) == Move(ConnectionState.LINKED)
    assert next_step(expired, account(AccountStatus.EXPIRED), has_agent=True, now=NOW) == Seen()
    assert next_step(expired, None, has_agent=True, now=NOW) is None


def test_times_run_out() -> None:
    def step(state: ConnectionState, after: timedelta, **values: Any) -> object:  # noqa: ANN401 - as above
        pending = account(AccountStatus.PENDING)
        return next_step(connection(state, **values), pending, has_agent=True, now=NOW + after)

    assert step(ConnectionState.REQUESTED, timedelta(minutes=11)) == Move(ConnectionState.REVOKING)
    assert step(ConnectionState.CONFIRMED, SETTLING + timedelta(seconds=1)) == Move(ConnectionState.FAILED, NOT_AGREED)
    assert step(ConnectionState.FAILED, timedelta()) == Clean()
    assert step(ConnectionState.FAILED, KEPT, cleaned_at=NOW) is None
    assert step(ConnectionState.FAILED, KEPT + timedelta(seconds=1), cleaned_at=NOW) == Drop()
    assert step(ConnectionState.REVOKING, timedelta(days=9)) == Clean()
    assert step(ConnectionState.REVOKING, timedelta(), cleaned_at=NOW) == Drop()


def test_another_users_account_is_refused() -> None:
    confirmed = connection(ConnectionState.CONFIRMED)
    for other in (account(AccountStatus.ACTIVE, "slack"), account(AccountStatus.ACTIVE, user="i-2")):
        assert next_step(confirmed, other, has_agent=True, now=NOW) == Move(ConnectionState.FAILED, NOT_YOURS)


@each_case(
    "user, session, is_right",
    [("ada", "digest", True), ("ada", "other", False), ("grace", "digest", False), ("ada", "", False)],
    ids=str,
)
def test_the_browser_that_asked_has_to_come_back(user: str, session: str, *, is_right: bool) -> None:
    assert comes_back(connection(ConnectionState.REQUESTED), user, session) is is_right


def test_a_client_with_a_token_may_come_back_in_any_session_of_its_user() -> None:
    requested = connection(ConnectionState.REQUESTED, session="")
    assert comes_back(requested, "ada", "any")
    assert not comes_back(requested, "grace", "any")


@given(states=st.lists(STATES, max_size=6))
def test_an_agent_may_use_linked_accounts_alone(states: list[ConnectionState]) -> None:
    rows = [connection(state, service=f"s{n}", account=f"ca_{n}") for n, state in enumerate(states)]
    accounts = accounts_for_agent(rows)
    assert set(accounts) == {row.service for row in rows if row.state is ConnectionState.LINKED}
    assert digest_of(accounts) == digest_of(accounts_for_agent(reversed(rows)))
    assert digest_of(accounts) != digest_of({**accounts, "more": ("ca_x",)})
