"""Who may ask a model, and what the others are told."""

from hermesops.model.billing.model_usage import Account, Spent
from hermesops.model.billing.route import issue_token
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.account_cache import AccountCache
from hermesops.programs.model_router.requests.admission import Admission, Refused
from tests.support.suite.cases import each_case

INSTANCE, OTHER = InstanceId("ada"), InstanceId("bob")
OLD, NEW = b"o" * 32, b"n" * 32
NOW = 1_800_000_000.0  # 2027-01-15


async def admission(account: Account | None, *, check_address: bool = False, age_s: float = 0) -> Admission:
    clock = [0.0]
    accounts = AccountCache(lambda: {INSTANCE: account} if account else {}, clock=lambda: clock[0])
    await accounts.read()
    clock[0] = age_s
    return Admission([NEW, OLD], accounts, check_address=check_address, clock=lambda: NOW)


def bearer(secret: bytes = NEW, *, generation: int = 2, life_s: int = 60) -> str:
    return f"Bearer {issue_token(secret, INSTANCE, generation, int(NOW) + life_s)}"


async def test_tokens_of_both_keys_count_while_one_replaces_the_other() -> None:
    admitted_request = await admission(Account(2))
    assert [await admitted_request.caller(bearer(secret)) for secret in (NEW, OLD)] == [INSTANCE, INSTANCE]


@each_case(
    ("authorization", "account"),
    [
        ("", Account(2)),
        ("Basic abc", Account(2)),
        (bearer(b"x" * 32), Account(2)),
        (bearer(life_s=0), Account(2)),
        (bearer(generation=1), Account(2)),
        (bearer(), None),
    ],
)
async def test_what_does_not_count_is_401(authorization: str, account: Account | None) -> None:
    caller = await (await admission(account)).caller(authorization)
    assert isinstance(caller, Refused)
    assert caller.status == 401


async def test_not_knowing_is_503_and_never_401_but_of_a_token_that_expired() -> None:
    admitted_request = await admission(Account(2), age_s=301)
    for token, status in ((bearer(), 503), (bearer(life_s=0), 401)):
        caller = await admitted_request.caller(token)
        assert isinstance(caller, Refused)
        assert caller.status == status


async def test_a_token_counts_from_its_own_machine_where_that_is_asked_for() -> None:
    account = Account(2, address="10.0.0.7")
    strict, lax = await admission(account, check_address=True), await admission(account)
    assert await strict.caller(bearer(), "10.0.0.7") == INSTANCE
    assert isinstance(await strict.caller(bearer(), "10.0.0.8"), Refused)
    assert await lax.caller(bearer(), "10.0.0.8") == INSTANCE
    unknown = await admission(Account(2), check_address=True)
    assert await unknown.caller(bearer(), "10.0.0.8") == INSTANCE, "no machine is known"


@each_case(
    ("account", "is_over"),
    [
        (Account(1), False),
        (Account(1, None, 100, Spent(0, 99)), False),
        (Account(1, None, 100, Spent(0, 100)), True),
        (Account(1, 10, None, Spent(10, 0)), True),
        (Account(1, 10, 100, Spent(9, 99)), False),
        (Account(1, 0, None), True),
    ],
)
async def test_a_budget_is_used_up_once_all_of_it_is(account: Account, is_over: bool) -> None:  # noqa: FBT001 - a case
    refused = (await admission(account)).over_budget(INSTANCE)
    assert (refused is not None) is is_over
    if refused:
        assert (refused.status, refused.code) == (429, "insufficient_quota")
        assert "2027-02-01" in refused.message


async def test_in_december_the_next_month_is_january() -> None:
    admission = Admission([NEW], await known(Account(1, 0)), clock=lambda: 1_797_000_000.0)  # 2026-12-11
    refused = admission.over_budget(INSTANCE)
    assert refused
    assert "2027-01-01" in refused.message


async def known(account: Account) -> AccountCache:
    accounts = AccountCache(lambda: {INSTANCE: account})
    await accounts.read()
    return accounts


async def test_what_was_spent_counts_before_the_registry_knows_and_once_after() -> None:
    table, delivered = {INSTANCE: Account(1)}, [False]

    async def deliver() -> bool:
        return delivered[0]

    accounts = AccountCache(lambda: dict(table), deliver=deliver)
    await accounts.read()
    accounts.charge(INSTANCE, Spent(3, 5))
    for _ in range(3):
        await accounts.read()
        assert spent_of(accounts) == Spent(3, 5), "not delivered yet"
    accounts.charge(INSTANCE, Spent(1, 1))
    table[INSTANCE], delivered[0] = Account(1, spent=Spent(4, 6)), True
    await accounts.read()
    assert spent_of(accounts) == Spent(4, 6)
    accounts.charge(OTHER, Spent(1, 1))
    assert accounts.of(OTHER) is None


def spent_of(accounts: AccountCache) -> Spent:
    account = accounts.of(INSTANCE)
    assert account
    return account.spent
