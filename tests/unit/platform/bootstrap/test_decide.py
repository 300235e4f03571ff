"""Which steps follow from what an account has: everything once, in an order in which each can be done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.decide import (
    AccountState,
    Action,
    BoundaryState,
    BucketState,
    KeyState,
    ProviderState,
    RoleState,
    kept,
    obstacles,
    plan,
    same,
    undo_obstacles,
    undo_plan,
)
from hermesops.platform.bootstrap.spec import PipelineRole
from tests.support.real.aws_account import ACCOUNT, AUDIENCE, REGION, spec_of
from tests.support.suite.cases import each_case

SPEC = spec_of(bucket="state")
KEY = KeyState(f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1", is_usable=True, is_going=False, rotates=True, is_named=True)
BUCKET = BucketState(
    REGION,
    is_versioned=True,
    key=KEY.arn,
    blocks_public=True,
    owns_objects=True,
    policy=documents.bucket_policy(SPEC)["Statement"],
    rules=[documents.lifecycle()],
    tags={**SPEC.tags, "team": "sre"},
)
ROLES = {
    role: RoleState(documents.trust(SPEC, role), documents.permissions(SPEC, role, KEY.arn), SPEC.tags)
    for role in PipelineRole
}
BOUNDARIES = {name: BoundaryState(item, SPEC.tags) for name, item in boundaries(SPEC).items()}
READY = AccountState(KEY, BUCKET, ProviderState((AUDIENCE,), SPEC.tags), BOUNDARIES, ROLES)
APPLY = PipelineRole.APPLY


def with_key(**changed: Any) -> AccountState:  # noqa: ANN401 - its fields
    return replace(READY, key=replace(KEY, **changed))


def with_bucket(**changed: Any) -> AccountState:  # noqa: ANN401 - its fields
    return replace(READY, bucket=replace(BUCKET, **changed))


def with_role(**changed: Any) -> AccountState:  # noqa: ANN401 - its fields
    return replace(READY, roles={**ROLES, APPLY: replace(ROLES[APPLY], **changed)})


def with_boundary(name: str, **changed: Any) -> AccountState:  # noqa: ANN401 - its fields
    return replace(READY, boundaries={**BOUNDARIES, name: replace(BOUNDARIES[name], **changed)})


def actions(account_state: AccountState) -> list[Action]:
    return [step.action for step in plan(SPEC, account_state)]


def test_an_empty_account_needs_everything_but_repairs() -> None:
    opening = actions(AccountState())
    assert len(opening) == 18
    assert opening.index(Action.MAKE_KEY) < opening.index(Action.MAKE_BUCKET) < opening.index(Action.ENCRYPT_BUCKET)
    assert opening.index(Action.MAKE_PROVIDER) < opening.index(Action.MAKE_ROLE)
    assert opening.index(Action.BLOCK_PUBLIC) < opening.index(Action.REQUIRE_TLS)


def test_an_account_that_is_ready_needs_nothing() -> None:
    assert plan(SPEC, READY) == ()
    assert obstacles(SPEC, READY) == ()


@each_case(
    ("account_state", "wanted"),
    [
        (with_key(is_usable=False, is_going=True), [Action.RESTORE_KEY]),
        (with_key(rotates=False), [Action.ROTATE_KEY]),
        (with_key(is_named=False), [Action.NAME_KEY]),
        (with_key(arn="arn:another"), [Action.ENCRYPT_BUCKET, Action.CHANGE_PERMISSIONS, Action.CHANGE_PERMISSIONS]),
        (with_bucket(is_versioned=False), [Action.KEEP_VERSIONS]),
        (with_bucket(key=""), [Action.ENCRYPT_BUCKET]),
        (with_bucket(blocks_public=False), [Action.BLOCK_PUBLIC]),
        (with_bucket(owns_objects=False), [Action.OWN_OBJECTS]),
        (with_bucket(policy=BUCKET.policy[:1]), [Action.REQUIRE_TLS]),
        (with_bucket(rules=[{**documents.lifecycle(), "Status": "Disabled"}]), [Action.EXPIRE_VERSIONS]),
        (with_bucket(rules=[{**documents.lifecycle(), "Filter": {"Prefix": "a/"}}]), [Action.EXPIRE_VERSIONS]),
        (with_bucket(tags={}), [Action.TAG_BUCKET]),
        (replace(READY, provider=None), [Action.MAKE_PROVIDER]),
        (replace(READY, provider=ProviderState(("sts.amazonaws.com",), {})), [Action.ADD_AUDIENCE]),
        (replace(READY, boundaries={}), [Action.MAKE_BOUNDARY, Action.MAKE_BOUNDARY]),
        (with_boundary(SPEC.boundary, document={"Statement": []}), [Action.CHANGE_BOUNDARY]),
        (with_boundary(SPEC.users_boundary, document={"Statement": []}), [Action.CHANGE_BOUNDARY]),
        (with_role(trust={"Statement": []}), [Action.CHANGE_TRUST]),
        (with_role(permissions=None), [Action.CHANGE_PERMISSIONS]),
        (with_role(permissions={"Statement": []}), [Action.CHANGE_PERMISSIONS]),
    ],
)
def test_what_differs_is_mended_and_nothing_else(account_state: AccountState, wanted: list[Action]) -> None:
    assert actions(account_state) == wanted


@each_case(
    ("account_state", "message"),
    [
        (with_bucket(region="eu-west-1"), "bucket state is in eu-west-1, not in eu-central-1"),
        (with_bucket(tags={"hermesops:environment": "staging"}), "bucket state is that of environment staging"),
        (with_role(tags={}), "role hermesops-production-apply was not made by a bootstrap of production"),
        (with_role(policies=("AdministratorAccess",)), "has policies that are not ours: AdministratorAccess"),
        (with_boundary(SPEC.boundary, tags={}), "policy hermesops-production-boundary was not made by"),
        (with_boundary(SPEC.users_boundary, tags={}), "policy hermesops-production-backup-user was not made by"),
    ],
)
def test_what_is_somebody_elses_stops_it_both_ways(account_state: AccountState, message: str) -> None:
    assert message in "; ".join(obstacles(SPEC, account_state))
    assert message in "; ".join(undo_obstacles(SPEC, account_state))


@each_case(
    ("account_state", "message"),
    [
        (with_bucket(content=".pulumi/meta.yaml"), "bucket state is not empty: it holds .pulumi/meta.yaml"),
        (with_key(aliases=("alias/other",)), "the key has other names, so something uses it: alias/other"),
        (with_key(grants=2), "2 grants let something use the key"),
        (
            replace(READY, provider=ProviderState((AUDIENCE,), SPEC.tags, ("deploy",))),
            "other roles trust https://token.actions.githubusercontent.com: deploy",
        ),
        (
            with_boundary(SPEC.boundary, users=("host",)),
            "roles or users of the platform are bounded by hermesops-production-boundary: host",
        ),
    ],
)
def test_what_is_in_use_stops_undo_alone(account_state: AccountState, message: str) -> None:
    assert message in "; ".join(undo_obstacles(SPEC, account_state))
    assert obstacles(SPEC, account_state) == ()


def test_undo_goes_back_in_order_and_ends() -> None:
    assert undo_obstacles(SPEC, READY) == ()
    assert [step.action for step in undo_plan(SPEC, READY)] == [
        Action.DELETE_ROLE,
        Action.DELETE_ROLE,
        Action.DELETE_BOUNDARY,
        Action.DELETE_BOUNDARY,
        Action.DELETE_PROVIDER,
        Action.DELETE_BUCKET,
        Action.DELETE_KEY,
        Action.DELETE_ALIAS,
    ]
    assert undo_plan(SPEC, AccountState()) == ()
    gone = AccountState(key=replace(KEY, is_usable=False, is_going=True))
    assert [step.action for step in undo_plan(SPEC, gone)] == [Action.DELETE_ALIAS]


def test_a_provider_that_was_there_before_stays() -> None:
    account_state = replace(READY, provider=ProviderState((AUDIENCE,), {"team": "sre"}, ("deploy",)))
    assert undo_obstacles(SPEC, account_state) == ()
    assert Action.DELETE_PROVIDER not in [step.action for step in undo_plan(SPEC, account_state)]
    assert kept(SPEC, account_state) == ("provider https://token.actions.githubusercontent.com: it was there before",)


ONE: Callable[[Any], dict[str, Any]] = lambda action: {"Statement": [{"Action": action, "Resource": "*"}]}  # noqa: E731


@each_case(
    ("first", "other", "are_same"),
    [
        (ONE(["a", "b"]), ONE(["b", "a"]), True),
        (ONE(["a"]), ONE("a"), True),
        (ONE(["a"]), {"Statement": {"Action": "a", "Resource": ["*"]}}, True),
        (ONE(["a"]), ONE(["a", "b"]), False),
        (ONE("a"), {"Statement": []}, False),
    ],
)
def test_documents_are_compared_by_what_they_mean(first: object, other: object, *, are_same: bool) -> None:
    assert same(first, other) is are_same
