"""Steps from an account's observed state to its bootstrap, and back. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.documents import Policy
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole

UNKNOWN_KEY = "the key's ARN"
"""Stands for it in a plan that makes the key."""


class Action(StrEnum):
    """Actions of steps; the value completes a sentence that begins with the thing's name."""

    MAKE_KEY = "make the key"
    RESTORE_KEY = "cancel its deletion and enable it"
    ROTATE_KEY = "rotate it each year"
    NAME_KEY = "give the key this alias"
    MAKE_BUCKET = "make the bucket"
    BLOCK_PUBLIC = "block public access"
    OWN_OBJECTS = "let the bucket's owner own all objects"
    KEEP_VERSIONS = "keep versions"
    ENCRYPT_BUCKET = "encrypt it with the key"
    REQUIRE_TLS = "refuse access without TLS 1.2"
    EXPIRE_VERSIONS = "delete old versions after 90 days"
    TAG_BUCKET = "tag it"
    MAKE_PROVIDER = "trust the pipelines' issuer"
    ADD_AUDIENCE = "accept tokens for this audience"
    MAKE_BOUNDARY = "make the permissions boundary of the platform's roles or users"
    CHANGE_BOUNDARY = "change the permissions boundary of the platform's roles or users"
    MAKE_ROLE = "make the role"
    CHANGE_TRUST = "change the pipelines that may assume it"
    CHANGE_PERMISSIONS = "set its permissions"

    DELETE_ROLE = "delete the role"
    DELETE_BOUNDARY = "delete the policy"
    DELETE_PROVIDER = "delete the provider"
    DELETE_BUCKET = "delete the empty bucket"
    DELETE_ALIAS = "delete the alias"
    DELETE_KEY = "delete the key in 30 days"


@dataclass(frozen=True)
class Step:
    """One change of one thing.

    Attributes:
        thing: Its name in AWS.
        role: Of a role's step, which role.
    """

    action: Action
    thing: str
    role: PipelineRole | None = None


@dataclass(frozen=True)
class KeyState:
    """The key that the alias names, else the oldest one with our tags.

    Attributes:
        is_named: Whether the alias names it.
        others: Ids of further keys with our tags: two bootstraps at once made them.
        aliases: Names of it that are not ours.
        grants: How many others were given its use.
    """

    arn: str
    is_usable: bool
    is_going: bool
    rotates: bool
    is_named: bool
    others: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    grants: int = 0


@dataclass(frozen=True)
class BucketState:
    """The bucket.

    Attributes:
        region: Where it is.
        key: ARN or id of the key that it is encrypted with; empty: with Amazon's own.
        policy: Its statements by ``Sid``, those of others as well.
        rules: Those of its lifecycle, by ``ID``.
        content: One name in it, or a former version; empty where there is nothing.
    """

    region: str
    is_versioned: bool = False
    key: str = ""
    blocks_public: bool = False
    owns_objects: bool = False
    policy: Sequence[Mapping[str, Any]] = ()
    rules: Sequence[Mapping[str, Any]] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    content: str = ""


@dataclass(frozen=True)
class ProviderState:
    """The provider of identities for our issuer.

    Attributes:
        users: Roles that are not ours and trust it.
    """

    audiences: tuple[str, ...]
    tags: Mapping[str, str]
    users: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoleState:
    """A role.

    Attributes:
        policies: Names of policies on it that are not ours.
    """

    trust: Policy
    permissions: Policy | None
    tags: Mapping[str, str]
    policies: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoundaryState:
    """A policy that bounds roles or users.

    Attributes:
        users: Roles and users that it bounds.
    """

    document: Policy
    tags: Mapping[str, str]
    users: tuple[str, ...] = ()


@dataclass(frozen=True)
class AccountState:
    """Observed state of an account; ``None`` for a thing that does not exist."""

    key: KeyState | None = None
    bucket: BucketState | None = None
    provider: ProviderState | None = None
    boundaries: Mapping[str, BoundaryState] = field(default_factory=dict)
    roles: Mapping[PipelineRole, RoleState] = field(default_factory=dict)


def plan(spec: BootstrapSpec, state: AccountState) -> tuple[Step, ...]:
    """Everything that is missing or differs, in the order in which it is done."""
    return (
        *_key_steps(spec, state.key),
        *_bucket_steps(spec, state),
        *_provider_steps(spec, state.provider),
        *_boundary_steps(spec, state),
        *(step for role in PipelineRole for step in _role_steps(spec, state, role)),
    )


def obstacles(spec: BootstrapSpec, state: AccountState) -> tuple[str, ...]:
    """Reasons against making anything: things with our names that belong to somebody else."""
    return tuple(_obstacles(spec, state))


def undo_plan(spec: BootstrapSpec, state: AccountState) -> tuple[Step, ...]:
    """Steps that remove the bootstrap, in order; foreign things stay."""
    roles = [
        Step(Action.DELETE_ROLE, spec.role(role), role)
        for role in reversed(PipelineRole)
        if _is_ours(spec, state, role)
    ]
    bounds = [Step(Action.DELETE_BOUNDARY, name) for name in state.boundaries]
    provider = state.provider
    trusted = [Step(Action.DELETE_PROVIDER, spec.issuer)] if provider and _has(provider.tags, spec.tags) else []
    bucket = [Step(Action.DELETE_BUCKET, spec.bucket)] if state.bucket else []
    key = state.key
    named = [Step(Action.DELETE_ALIAS, spec.alias)] if key and key.is_named else []
    keys = [Step(Action.DELETE_KEY, spec.alias)] if key and not key.is_going else []
    return (*roles, *bounds, *trusted, *bucket, *keys, *named)


def undo_obstacles(spec: BootstrapSpec, state: AccountState) -> tuple[str, ...]:
    """Why nothing may be deleted: something is still in use."""
    return (*_foreign(spec, state), *_in_use(spec, state))


def kept(spec: BootstrapSpec, state: AccountState) -> tuple[str, ...]:
    """Things that an undo leaves in the account, with reasons."""
    provider = state.provider
    if provider and not _has(provider.tags, spec.tags):
        return (f"provider {spec.issuer}: it was there before",)
    return ()


def same(document: object, other: object) -> bool:
    """Whether two IAM documents mean the same: AWS writes a list of one as its element, and sorts lists as it likes."""
    return _plain(document) == _plain(other)


def _key_steps(spec: BootstrapSpec, key: KeyState | None) -> Iterator[Step]:
    if key is None:
        yield Step(Action.MAKE_KEY, spec.alias)
    elif not key.is_usable:
        yield Step(Action.RESTORE_KEY, spec.alias)
    if key is None or not key.rotates:
        yield Step(Action.ROTATE_KEY, spec.alias)
    if key is None or not key.is_named:
        yield Step(Action.NAME_KEY, spec.alias)


def _bucket_steps(spec: BootstrapSpec, state: AccountState) -> Iterator[Step]:
    bucket = state.bucket or BucketState("")
    key = state.key.arn if state.key else UNKNOWN_KEY
    is_done = {
        Action.MAKE_BUCKET: state.bucket is not None,
        Action.TAG_BUCKET: _has(bucket.tags, spec.tags),
        Action.BLOCK_PUBLIC: bucket.blocks_public,
        Action.OWN_OBJECTS: bucket.owns_objects,
        Action.KEEP_VERSIONS: bucket.is_versioned,
        Action.ENCRYPT_BUCKET: bucket.key == key,
        Action.REQUIRE_TLS: all(
            any(same(statement, there) for there in bucket.policy)
            for statement in documents.bucket_policy(spec)["Statement"]
        ),
        Action.EXPIRE_VERSIONS: any(_expires_as(documents.lifecycle(), there) for there in bucket.rules),
    }
    yield from (Step(action, spec.bucket) for action, is_so in is_done.items() if not is_so)


def _provider_steps(spec: BootstrapSpec, provider: ProviderState | None) -> Iterator[Step]:
    if provider is None:
        yield Step(Action.MAKE_PROVIDER, spec.issuer)
    elif spec.audience not in provider.audiences:
        yield Step(Action.ADD_AUDIENCE, spec.issuer)


def _boundary_steps(spec: BootstrapSpec, state: AccountState) -> Iterator[Step]:
    for name, document in boundaries(spec).items():
        boundary = state.boundaries.get(name)
        if boundary is None:
            yield Step(Action.MAKE_BOUNDARY, name)
        elif not same(boundary.document, document):
            yield Step(Action.CHANGE_BOUNDARY, name)


def _role_steps(spec: BootstrapSpec, state: AccountState, role: PipelineRole) -> Iterator[Step]:
    present, name = state.roles.get(role), spec.role(role)
    key = state.key.arn if state.key else UNKNOWN_KEY
    if present is None:
        yield Step(Action.MAKE_ROLE, name, role)
    elif not same(present.trust, documents.trust(spec, role)):
        yield Step(Action.CHANGE_TRUST, name, role)
    if present is None or not same(present.permissions, documents.permissions(spec, role, key)):
        yield Step(Action.CHANGE_PERMISSIONS, name, role)


def _obstacles(spec: BootstrapSpec, state: AccountState) -> Iterator[str]:
    yield from _foreign(spec, state)
    yield from _widened(spec, state)


def _foreign(spec: BootstrapSpec, state: AccountState) -> Iterator[str]:
    bucket = state.bucket
    if bucket and bucket.region != spec.region:
        yield f"bucket {spec.bucket} is in {bucket.region}, not in {spec.region}"
    owner = bucket.tags.get("hermesops:environment", spec.environment) if bucket else spec.environment
    if owner != spec.environment:
        yield f"bucket {spec.bucket} is that of environment {owner}"
    for role, present in state.roles.items():
        if not _has(present.tags, spec.tags):
            yield f"role {spec.role(role)} was not made by a bootstrap of {spec.environment}"
    for name, boundary in state.boundaries.items():
        if not _has(boundary.tags, spec.tags):
            yield f"policy {name} was not made by a bootstrap of {spec.environment}"


def _in_use(spec: BootstrapSpec, state: AccountState) -> Iterator[str]:
    if state.bucket and state.bucket.content:
        yield f"bucket {spec.bucket} is not empty: it holds {state.bucket.content}"
    if state.key and state.key.aliases:
        yield f"the key has other names, so something uses it: {', '.join(state.key.aliases)}"
    if state.key and state.key.grants:
        yield f"{state.key.grants} grants let something use the key"
    if state.provider and _has(state.provider.tags, spec.tags) and state.provider.users:
        yield f"other roles trust {spec.issuer}: {', '.join(state.provider.users)}"
    for name, boundary in state.boundaries.items():
        if boundary.users:
            yield f"roles or users of the platform are bounded by {name}: {', '.join(boundary.users)}"
    yield from _widened(spec, state)


def _widened(spec: BootstrapSpec, state: AccountState) -> Iterator[str]:
    for role, present in state.roles.items():
        if present.policies:
            yield f"role {spec.role(role)} has policies that are not ours: {', '.join(present.policies)}"


def _is_ours(spec: BootstrapSpec, state: AccountState, role: PipelineRole) -> bool:
    present = state.roles.get(role)
    return present is not None and _has(present.tags, spec.tags)


def _has(tags: Mapping[str, str], required: Mapping[str, str]) -> bool:
    return required.items() <= tags.items()


def _expires_as(lifecycle: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a rule of a lifecycle does the same, in the whole bucket; S3 spells the rest of it in several ways."""
    names = ("Status", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
    where = rule.get("Filter", {})
    return all(rule.get(name) == lifecycle[name] for name in names) and not any(where.values())


def _plain(value: object) -> object:
    """Normalise an IAM document: sorted lists, and a list of one item as that item."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list | tuple):
        inner = sorted((_plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        return inner[0] if len(inner) == 1 else inner
    return value
