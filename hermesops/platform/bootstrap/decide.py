"""Which steps lead from what an account has to what a bootstrap wants there, and back. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.documents import Policy
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole

UNKNOWN_KEY = "the key's ARN"
"""Stands for it in a plan that makes the key."""


class Action(StrEnum):
    """What a step does; the value is how it reads behind the thing's name."""

    MAKE_KEY = "make the key"
    RESTORE_KEY = "take back its deletion, and enable it"
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
    MAKE_BOUNDARY = "make the bounds of the platform's roles or users"
    CHANGE_BOUNDARY = "mend the bounds of the platform's roles or users"
    MAKE_ROLE = "make the role"
    CHANGE_TRUST = "mend which pipelines may take it"
    CHANGE_PERMISSIONS = "set what it may do"

    DELETE_ROLE = "delete the role"
    DELETE_BOUNDARY = "delete the policy"
    DELETE_PROVIDER = "delete the provider"
    DELETE_BUCKET = "delete the bucket, which is empty"
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
    """What an account has; ``None`` for what is missing."""

    key: KeyState | None = None
    bucket: BucketState | None = None
    provider: ProviderState | None = None
    boundaries: Mapping[str, BoundaryState] = field(default_factory=dict)
    roles: Mapping[PipelineRole, RoleState] = field(default_factory=dict)


def plan(spec: BootstrapSpec, seen: AccountState) -> tuple[Step, ...]:
    """Everything that is missing or differs, in the order in which it is done."""
    return (
        *_key_steps(spec, seen.key),
        *_bucket_steps(spec, seen),
        *_provider_steps(spec, seen.provider),
        *_boundary_steps(spec, seen),
        *(step for role in PipelineRole for step in _role_steps(spec, seen, role)),
    )


def obstacles(spec: BootstrapSpec, seen: AccountState) -> tuple[str, ...]:
    """Why nothing may be made: what is there belongs to somebody else."""
    return tuple(_obstacles(spec, seen))


def undo_plan(spec: BootstrapSpec, seen: AccountState) -> tuple[Step, ...]:
    """The way back, in order; what is not ours stays."""
    roles = [
        Step(Action.DELETE_ROLE, spec.role(role), role) for role in reversed(PipelineRole) if _is_ours(spec, seen, role)
    ]
    bounds = [Step(Action.DELETE_BOUNDARY, name) for name in seen.boundaries]
    provider = seen.provider
    trusted = [Step(Action.DELETE_PROVIDER, spec.issuer)] if provider and _has(provider.tags, spec.tags) else []
    bucket = [Step(Action.DELETE_BUCKET, spec.bucket)] if seen.bucket else []
    key = seen.key
    named = [Step(Action.DELETE_ALIAS, spec.alias)] if key and key.is_named else []
    keys = [Step(Action.DELETE_KEY, spec.alias)] if key and not key.is_going else []
    return (*roles, *bounds, *trusted, *bucket, *keys, *named)


def undo_obstacles(spec: BootstrapSpec, seen: AccountState) -> tuple[str, ...]:
    """Why nothing may be deleted: something is still in use."""
    return (*_foreign(spec, seen), *_in_use(spec, seen))


def kept(spec: BootstrapSpec, seen: AccountState) -> tuple[str, ...]:
    """What stays after an undo, and why."""
    provider = seen.provider
    if provider and not _has(provider.tags, spec.tags):
        return (f"provider {spec.issuer}: it was there before",)
    return ()


def same(one: object, other: object) -> bool:
    """Whether two IAM documents mean the same: AWS writes a list of one as its element, and sorts lists as it likes."""
    return _plain(one) == _plain(other)


def _key_steps(spec: BootstrapSpec, key: KeyState | None) -> Iterator[Step]:
    if key is None:
        yield Step(Action.MAKE_KEY, spec.alias)
    elif not key.is_usable:
        yield Step(Action.RESTORE_KEY, spec.alias)
    if key is None or not key.rotates:
        yield Step(Action.ROTATE_KEY, spec.alias)
    if key is None or not key.is_named:
        yield Step(Action.NAME_KEY, spec.alias)


def _bucket_steps(spec: BootstrapSpec, seen: AccountState) -> Iterator[Step]:
    bucket = seen.bucket or BucketState("")
    key = seen.key.arn if seen.key else UNKNOWN_KEY
    wanted = {
        Action.MAKE_BUCKET: seen.bucket is not None,
        Action.TAG_BUCKET: _has(bucket.tags, spec.tags),
        Action.BLOCK_PUBLIC: bucket.blocks_public,
        Action.OWN_OBJECTS: bucket.owns_objects,
        Action.KEEP_VERSIONS: bucket.is_versioned,
        Action.ENCRYPT_BUCKET: bucket.key == key,
        Action.REQUIRE_TLS: all(
            any(same(one, there) for there in bucket.policy) for one in documents.bucket_policy(spec)["Statement"]
        ),
        Action.EXPIRE_VERSIONS: any(_expires_as(documents.lifecycle(), there) for there in bucket.rules),
    }
    yield from (Step(action, spec.bucket) for action, is_so in wanted.items() if not is_so)


def _provider_steps(spec: BootstrapSpec, provider: ProviderState | None) -> Iterator[Step]:
    if provider is None:
        yield Step(Action.MAKE_PROVIDER, spec.issuer)
    elif spec.audience not in provider.audiences:
        yield Step(Action.ADD_AUDIENCE, spec.issuer)


def _boundary_steps(spec: BootstrapSpec, seen: AccountState) -> Iterator[Step]:
    for name, document in documents.boundaries(spec).items():
        found = seen.boundaries.get(name)
        if found is None:
            yield Step(Action.MAKE_BOUNDARY, name)
        elif not same(found.document, document):
            yield Step(Action.CHANGE_BOUNDARY, name)


def _role_steps(spec: BootstrapSpec, seen: AccountState, role: PipelineRole) -> Iterator[Step]:
    found, name = seen.roles.get(role), spec.role(role)
    key = seen.key.arn if seen.key else UNKNOWN_KEY
    if found is None:
        yield Step(Action.MAKE_ROLE, name, role)
    elif not same(found.trust, documents.trust(spec, role)):
        yield Step(Action.CHANGE_TRUST, name, role)
    if found is None or not same(found.permissions, documents.permissions(spec, role, key)):
        yield Step(Action.CHANGE_PERMISSIONS, name, role)


def _obstacles(spec: BootstrapSpec, seen: AccountState) -> Iterator[str]:
    yield from _foreign(spec, seen)
    yield from _widened(spec, seen)


def _foreign(spec: BootstrapSpec, seen: AccountState) -> Iterator[str]:
    bucket = seen.bucket
    if bucket and bucket.region != spec.region:
        yield f"bucket {spec.bucket} is in {bucket.region}, not in {spec.region}"
    owner = bucket.tags.get("hermesops:environment", spec.environment) if bucket else spec.environment
    if owner != spec.environment:
        yield f"bucket {spec.bucket} is that of environment {owner}"
    for role, found in seen.roles.items():
        if not _has(found.tags, spec.tags):
            yield f"role {spec.role(role)} was not made by a bootstrap of {spec.environment}"
    for name, boundary in seen.boundaries.items():
        if not _has(boundary.tags, spec.tags):
            yield f"policy {name} was not made by a bootstrap of {spec.environment}"


def _in_use(spec: BootstrapSpec, seen: AccountState) -> Iterator[str]:
    if seen.bucket and seen.bucket.content:
        yield f"bucket {spec.bucket} is not empty: it holds {seen.bucket.content}"
    if seen.key and seen.key.aliases:
        yield f"the key has other names, so something uses it: {', '.join(seen.key.aliases)}"
    if seen.key and seen.key.grants:
        yield f"{seen.key.grants} grants let something use the key"
    if seen.provider and _has(seen.provider.tags, spec.tags) and seen.provider.users:
        yield f"other roles trust {spec.issuer}: {', '.join(seen.provider.users)}"
    for name, boundary in seen.boundaries.items():
        if boundary.users:
            yield f"roles or users of the platform are bounded by {name}: {', '.join(boundary.users)}"
    yield from _widened(spec, seen)


def _widened(spec: BootstrapSpec, seen: AccountState) -> Iterator[str]:
    for role, found in seen.roles.items():
        if found.policies:
            yield f"role {spec.role(role)} has policies that are not ours: {', '.join(found.policies)}"


def _is_ours(spec: BootstrapSpec, seen: AccountState, role: PipelineRole) -> bool:
    found = seen.roles.get(role)
    return found is not None and _has(found.tags, spec.tags)


def _has(tags: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= tags.items()


def _expires_as(wanted: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a rule of a lifecycle does the same, in the whole bucket; S3 spells the rest of it in several ways."""
    names = ("Status", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
    where = rule.get("Filter", {})
    return all(rule.get(name) == wanted[name] for name in names) and not any(where.values())


def _plain(value: object) -> object:
    """A document in one spelling."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list | tuple):
        inner = sorted((_plain(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
        return inner[0] if len(inner) == 1 else inner
    return value
