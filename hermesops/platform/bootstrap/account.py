"""An AWS account, looked at and changed by the steps of a bootstrap. It must not decide which."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hermesops.base.network.aws_client import asking, bound_answers, client_options, open_client, open_session
from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UsageError
from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.decide import (
    AccountState,
    Action,
    BoundaryState,
    BucketState,
    KeyState,
    ProviderState,
    RoleState,
    Step,
)
from hermesops.platform.bootstrap.spec import DELETION_DAYS, SESSION_S, BootstrapSpec, PipelineRole

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client

AWS = "AWS"
_HINT = Hint("aws sts get-caller-identity shows the identity")
_POLICY = "hermesops"
_MISSING = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "NotFoundException",
        "OwnershipControlsNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
    }
)
"""Codes by which AWS says that something is not there; some come with another status than 404."""

_DONE_BY_ANOTHER = frozenset({"AlreadyExistsException", "BucketAlreadyOwnedByYou", "EntityAlreadyExists"})
"""Codes that a step meets where another bootstrap does the same at the same moment; what is there is observed next."""

_PUBLIC = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
_DEFAULT_REGION = "us-east-1"
"""The one region that a bucket is made in without naming it, and that S3 calls by no name."""


class Account:
    """One account and region, asked as every AWS program asks."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._key_tags: dict[str, Mapping[str, str]] = {}
        """Of keys that were looked at before: an account may have hundreds, and each costs a request."""

    def caller(self) -> tuple[str, str]:
        """Account and ARN of the credentials' identity.

        Raises:
            UsageError: There are no credentials.
            RefusedError: They do not count.
            UnavailableError: AWS does not answer.
        """
        try:
            with _asking("who asks"):
                identity = self._client("sts").get_caller_identity()
        except UsageError as error:
            raise UsageError(
                f"no AWS credentials: {error.message}", hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret"
            ) from error
        return identity["Account"], identity["Arn"]

    def observe(self, spec: BootstrapSpec) -> AccountState:
        """Everything that a bootstrap is about."""
        return AccountState(
            self._key(spec), self.bucket(spec), self._provider(spec), self._boundaries(spec), self._roles(spec)
        )

    def do(self, spec: BootstrapSpec, step: Step, state: AccountState) -> None:
        """Carry out a step; each may be repeated.

        Args:
            seen: What there is now.
        """
        from botocore.exceptions import ClientError  # noqa: PLC0415 - loads for half a second

        with _asking(f"{step.thing}: {step.action.value}"):
            try:
                self._doers[step.action](spec, step, state)
            except ClientError as error:
                if _code(error) not in _DONE_BY_ANOTHER | _MISSING:
                    raise

    def check_key(self, spec: BootstrapSpec) -> str:
        """Try to encrypt and decrypt with the key; returns the observation in a few words.

        Raises:
            RefusedError: It is not enabled, or who asks may not look at it.
            UsageError: There is none.
        """
        with _asking(spec.alias):
            metadata = self._metadata(spec.alias)
            if metadata is None:
                raise UsageError(f"there is no key {spec.alias}", hint=Hint(("platform", "bootstrap"), "makes it"))
            if metadata["KeyState"] != "Enabled":
                raise RefusedError(
                    f"key {spec.alias} is {metadata['KeyState']}", hint=Hint(("platform", "bootstrap"), "restores it")
                )
            try:
                sealed = self._kms.encrypt(KeyId=spec.alias, Plaintext=b"hermesops")["CiphertextBlob"]
            except self._kms.exceptions.ClientError as error:
                if _code(error) != "AccessDeniedException":
                    raise
                return f"{spec.alias} is enabled; these credentials may not encrypt with it"
            self._kms.decrypt(CiphertextBlob=sealed)
            return f"{spec.alias} encrypts and decrypts"

    # Observing.

    def _key(self, spec: BootstrapSpec) -> KeyState | None:
        with _asking(f"keys of {spec.account}"):
            named = self._metadata(spec.alias)
            tagged = sorted(self._tagged_keys(spec), key=lambda metadata: (metadata["CreationDate"], metadata["KeyId"]))
            key = named or next(iter(tagged), None)
            if key is None:
                return None
            key_id, is_going = key["KeyId"], key["KeyState"] == "PendingDeletion"
            pages = self._kms.get_paginator("list_aliases").paginate(KeyId=key_id)
            aliases = [alias["AliasName"] for page in pages for alias in page["Aliases"]]
            return KeyState(
                arn=key["Arn"],
                is_usable=key["KeyState"] == "Enabled",
                is_going=is_going,
                rotates=not is_going and self._kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"],
                is_named=named is not None,
                others=tuple(metadata["KeyId"] for metadata in tagged if metadata["KeyId"] != key_id),
                aliases=tuple(alias for alias in aliases if alias != spec.alias),
                grants=len(self._kms.list_grants(KeyId=key_id)["Grants"]),
            )

    def _metadata(self, key: str) -> Mapping[str, Any] | None:
        metadata: Mapping[str, Any] | None = _found(lambda: self._kms.describe_key(KeyId=key)["KeyMetadata"])
        return metadata

    def _tagged_keys(self, spec: BootstrapSpec) -> Iterator[Mapping[str, Any]]:
        """Customers' keys with our tags, but those that are going to be deleted."""
        for page in self._kms.get_paginator("list_keys").paginate():
            for listed in page["Keys"]:
                key_id = listed["KeyId"]
                if key_id not in self._key_tags:
                    self._key_tags[key_id] = self._tags_of_key(key_id)
                if spec.tags.items() <= self._key_tags[key_id].items():
                    metadata = self._metadata(key_id)
                    if metadata and metadata["KeyState"] not in {"PendingDeletion", "PendingReplicaDeletion"}:
                        yield metadata

    def _tags_of_key(self, key_id: str) -> Mapping[str, str]:
        try:
            tags = self._kms.list_resource_tags(KeyId=key_id)["Tags"]
        except self._kms.exceptions.ClientError as error:
            if _code(error) == "AccessDeniedException":  # Amazon's own, or somebody else's
                return {}
            raise
        return {tag["TagKey"]: tag["TagValue"] for tag in tags}

    def bucket(self, spec: BootstrapSpec) -> BucketState | None:
        """The bucket, ``None`` where there is none.

        Raises:
            RefusedError: It is somebody else's, or who asks may not look at it.
        """
        name: Any = {"Bucket": spec.bucket, "ExpectedBucketOwner": spec.account}
        with _asking(f"bucket {spec.bucket}"):
            try:
                self._s3.head_bucket(**name)
            except self._s3.exceptions.ClientError as error:
                metadata: Any = error.response["ResponseMetadata"]
                status = metadata["HTTPStatusCode"]
                if status == HTTPStatus.NOT_FOUND:
                    return None
                where = metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
                if status == HTTPStatus.MOVED_PERMANENTLY and where:
                    return BucketState(where)
                if status == HTTPStatus.FORBIDDEN:
                    raise RefusedError(
                        f"bucket {spec.bucket} is in another account than {spec.account}, "
                        "or these credentials may not access it",
                        hint="name another one in pulumi.backend: bucket names are unique across AWS",
                    ) from error
                raise
            region = self._s3.get_bucket_location(**name).get("LocationConstraint") or _DEFAULT_REGION
            block = _found(lambda: self._s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"])
            owner = _found(lambda: self._s3.get_bucket_ownership_controls(**name)["OwnershipControls"]["Rules"])
            policy = _found(lambda: self._s3.get_bucket_policy(**name)["Policy"])
            rules = _found(lambda: self._s3.get_bucket_lifecycle_configuration(**name)["Rules"])
            return BucketState(
                region=region,
                is_versioned=self._s3.get_bucket_versioning(**name).get("Status") == "Enabled",
                key=self._bucket_key(name),
                blocks_public=bool(block) and all(block.get(name) for name in _PUBLIC),
                owns_objects=any(rule["ObjectOwnership"] == "BucketOwnerEnforced" for rule in owner or ()),
                policy=_statements(json.loads(policy)) if policy else (),
                rules=rules or (),
                tags=_tags(_found(lambda: self._s3.get_bucket_tagging(**name)["TagSet"])),
                content=self._content(name),
            )

    def _bucket_key(self, name: Any) -> str:  # noqa: ANN401 - arguments of every call
        rules = _found(lambda: self._s3.get_bucket_encryption(**name)["ServerSideEncryptionConfiguration"]["Rules"])
        for rule in rules or ():
            default = rule.get("ApplyServerSideEncryptionByDefault", {})
            if default.get("SSEAlgorithm") == "aws:kms" and rule.get("BucketKeyEnabled"):
                return str(default.get("KMSMasterKeyID", ""))
        return ""

    def _content(self, name: Any) -> str:  # noqa: ANN401 - as above
        listing = self._s3.list_object_versions(**name, MaxKeys=1)
        versions = [*listing.get("Versions", ()), *listing.get("DeleteMarkers", ())]
        return str(versions[0]["Key"]) if versions else ""

    def _provider(self, spec: BootstrapSpec) -> ProviderState | None:
        with _asking(f"provider {spec.issuer}"):
            arn = spec.provider_arn
            provider: Any = _found(lambda: self._iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn))
            if provider is None:
                return None
            ours = {spec.role(role) for role in PipelineRole}
            pages = self._iam.get_paginator("list_roles").paginate()
            users = (
                role["RoleName"]
                for page in pages
                for role in page["Roles"]
                if role["RoleName"] not in ours and arn in json.dumps(_document(role["AssumeRolePolicyDocument"]))
            )
            return ProviderState(tuple(provider["ClientIDList"]), _tags(provider.get("Tags")), tuple(users))

    def _boundaries(self, spec: BootstrapSpec) -> dict[str, BoundaryState]:
        states = {name: self._boundary(spec, name) for name in documents.boundaries(spec)}
        return {name: state for name, state in states.items() if state}

    def _boundary(self, spec: BootstrapSpec, name: str) -> BoundaryState | None:
        with _asking(f"policy {name}"):
            arn = spec.policy_arn(name)
            policy: Any = _found(lambda: self._iam.get_policy(PolicyArn=arn)["Policy"])
            if policy is None:
                return None
            version = self._iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])
            tags: Any = self._iam.list_policy_tags(PolicyArn=arn)["Tags"]
            pages = self._iam.get_paginator("list_entities_for_policy").paginate(
                PolicyArn=arn, PolicyUsageFilter="PermissionsBoundary"
            )
            users = tuple(
                entity[f"{kind}Name"] for page in pages for kind in ("Role", "User") for entity in _bounded(page, kind)
            )
            return BoundaryState(_document(version["PolicyVersion"]["Document"]), _tags(tags), users)

    def _roles(self, spec: BootstrapSpec) -> dict[PipelineRole, RoleState]:
        states = {role: self._role(spec.role(role)) for role in PipelineRole}
        return {role: state for role, state in states.items() if state}

    def _role(self, name: str) -> RoleState | None:
        with _asking(f"role {name}"):
            role: Any = _found(lambda: self._iam.get_role(RoleName=name)["Role"])
            if role is None:
                return None
            inline = self._iam.list_role_policies(RoleName=name)["PolicyNames"]
            attached = self._iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
            own = (
                _document(self._iam.get_role_policy(RoleName=name, PolicyName=_POLICY)["PolicyDocument"])
                if _POLICY in inline
                else None
            )
            others = (
                *(policy for policy in inline if policy != _POLICY),
                *(policy["PolicyName"] for policy in attached),
            )
            tags: Any = self._iam.list_role_tags(RoleName=name)["Tags"]
            return RoleState(_document(role["AssumeRolePolicyDocument"]), own, _tags(tags), others)

    # Doing.

    @cached_property
    def _doers(self) -> Mapping[Action, Callable[[BootstrapSpec, Step, AccountState], object]]:
        return {
            Action.MAKE_KEY: self._make_key,
            Action.RESTORE_KEY: self._restore_key,
            Action.ROTATE_KEY: lambda _, __, state: self._kms.enable_key_rotation(KeyId=_key_of(state)),
            Action.NAME_KEY: self._name_key,
            Action.MAKE_BUCKET: self._make_bucket,
            Action.TAG_BUCKET: self._tag_bucket,
            Action.BLOCK_PUBLIC: self._block_public,
            Action.OWN_OBJECTS: lambda spec, _, __: self._s3.put_bucket_ownership_controls(
                **_owned(spec), OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
            ),
            Action.KEEP_VERSIONS: lambda spec, _, __: self._s3.put_bucket_versioning(
                **_owned(spec), VersioningConfiguration={"Status": "Enabled"}
            ),
            Action.ENCRYPT_BUCKET: self._encrypt_bucket,
            Action.REQUIRE_TLS: self._require_tls,
            Action.EXPIRE_VERSIONS: self._expire_versions,
            Action.MAKE_PROVIDER: lambda spec, _, __: self._iam.create_open_id_connect_provider(
                Url=spec.issuer, ClientIDList=[spec.audience], Tags=_tag_list(spec)
            ),
            Action.ADD_AUDIENCE: lambda spec, _, __: self._iam.add_client_id_to_open_id_connect_provider(
                OpenIDConnectProviderArn=spec.provider_arn, ClientID=spec.audience
            ),
            Action.MAKE_BOUNDARY: lambda spec, step, _: self._iam.create_policy(
                PolicyName=step.thing,
                PolicyDocument=json.dumps(documents.boundaries(spec)[step.thing]),
                Description=f"What roles or users of the platform of {spec.environment} can have at most",
                Tags=_tag_list(spec),
            ),
            Action.CHANGE_BOUNDARY: self._change_boundary,
            Action.MAKE_ROLE: self._make_role,
            Action.CHANGE_TRUST: lambda spec, step, _: self._iam.update_assume_role_policy(
                RoleName=step.thing, PolicyDocument=json.dumps(documents.trust(spec, _role_of(step)))
            ),
            Action.CHANGE_PERMISSIONS: lambda spec, step, state: self._iam.put_role_policy(
                RoleName=step.thing,
                PolicyName=_POLICY,
                PolicyDocument=json.dumps(documents.permissions(spec, _role_of(step), _key_of(state))),
            ),
            Action.DELETE_ROLE: self._delete_role,
            Action.DELETE_BOUNDARY: self._delete_boundary,
            Action.DELETE_PROVIDER: lambda spec, _, __: self._iam.delete_open_id_connect_provider(
                OpenIDConnectProviderArn=spec.provider_arn
            ),
            Action.DELETE_BUCKET: lambda spec, _, __: self._s3.delete_bucket(**_owned(spec)),
            Action.DELETE_ALIAS: lambda spec, _, __: self._kms.delete_alias(AliasName=spec.alias),
            Action.DELETE_KEY: lambda _, __, state: self._kms.schedule_key_deletion(
                KeyId=_key_id(state), PendingWindowInDays=DELETION_DAYS
            ),
        }

    def _make_key(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        tags = [{"TagKey": name, "TagValue": text} for name, text in spec.tags.items()]
        # Sent once: a second try would make a second key.
        self._client("kms", tries=1).create_key(
            Description=f"Pulumi's state of {spec.environment}", Tags=tags, KeyUsage="ENCRYPT_DECRYPT"
        )

    def _restore_key(self, _: BootstrapSpec, __: Step, state: AccountState) -> None:
        if state.key and state.key.is_going:
            self._kms.cancel_key_deletion(KeyId=_key_id(state))
        self._kms.enable_key(KeyId=_key_id(state))

    def _name_key(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        self._kms.create_alias(AliasName=spec.alias, TargetKeyId=_key_of(state))

    def _make_bucket(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        where: Any = {"CreateBucketConfiguration": {"LocationConstraint": spec.region}}
        try:
            self._s3.create_bucket(Bucket=spec.bucket, **({} if spec.region == _DEFAULT_REGION else where))
        except self._s3.exceptions.BucketAlreadyExists as error:
            raise RefusedError(
                f"bucket {spec.bucket} is in another account",
                hint="name another one in pulumi.backend: bucket names are unique across AWS",
            ) from error

    def _tag_bucket(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        tags = {**(state.bucket.tags if state.bucket else {}), **spec.tags}
        self._s3.put_bucket_tagging(
            **_owned(spec), Tagging={"TagSet": [{"Key": name, "Value": text} for name, text in tags.items()]}
        )

    def _block_public(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        blocked: Any = dict.fromkeys(_PUBLIC, True)
        self._s3.put_public_access_block(**_owned(spec), PublicAccessBlockConfiguration=blocked)

    def _encrypt_bucket(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        default: Any = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": _key_of(state)}
        rule: Any = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
        self._s3.put_bucket_encryption(**_owned(spec), ServerSideEncryptionConfiguration={"Rules": [rule]})

    def _require_tls(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        policy = documents.bucket_policy(spec)
        ours = {statement["Sid"] for statement in policy["Statement"]}
        others = [
            statement for statement in (state.bucket.policy if state.bucket else ()) if statement.get("Sid") not in ours
        ]
        document = {**policy, "Statement": [*policy["Statement"], *others]}
        self._s3.put_bucket_policy(**_owned(spec), Policy=json.dumps(document))

    def _expire_versions(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        rule = documents.lifecycle()
        others = [other for other in (state.bucket.rules if state.bucket else ()) if other.get("ID") != rule["ID"]]
        rules: Any = {"Rules": [rule, *others]}
        self._s3.put_bucket_lifecycle_configuration(**_owned(spec), LifecycleConfiguration=rules)

    def _make_role(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        role = _role_of(step)
        self._iam.create_role(
            RoleName=step.thing,
            AssumeRolePolicyDocument=json.dumps(documents.trust(spec, role)),
            Description=f"Pipelines that {role.value} stacks of {spec.environment}",
            MaxSessionDuration=SESSION_S,
            Tags=_tag_list(spec),
        )

    def _change_boundary(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        arn, document = spec.policy_arn(step.thing), documents.boundaries(spec)[step.thing]
        self._delete_old_versions(arn)  # AWS keeps five at most
        self._iam.create_policy_version(PolicyArn=arn, PolicyDocument=json.dumps(document), SetAsDefault=True)

    def _delete_boundary(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        arn = spec.policy_arn(step.thing)
        self._delete_old_versions(arn)
        self._iam.delete_policy(PolicyArn=arn)

    def _delete_old_versions(self, arn: str) -> None:
        for version in self._iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                self._iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])

    def _delete_role(self, _: BootstrapSpec, step: Step, __: AccountState) -> None:
        with suppress(self._iam.exceptions.NoSuchEntityException):
            self._iam.delete_role_policy(RoleName=step.thing, PolicyName=_POLICY)
        self._iam.delete_role(RoleName=step.thing)

    # Clients.

    @cached_property
    def _session(self) -> "boto3.Session":
        return open_session(region=self._region)

    @cached_property
    def _s3(self) -> "S3Client":
        client: S3Client = self._client("s3")
        return client

    @cached_property
    def _kms(self) -> "KMSClient":
        client: KMSClient = self._client("kms")
        return client

    @cached_property
    def _iam(self) -> "IAMClient":
        client: IAMClient = self._client("iam")
        return client

    def _client(self, service: Any, *, tries: int = 0) -> Any:  # noqa: ANN401 - boto3 has an overload for each service
        from botocore.config import Config  # noqa: PLC0415 - loads for half a second

        config: Config = client_options(is_local=False)["config"]
        if tries:
            config = config.merge(Config(retries={"mode": "standard", "total_max_attempts": tries}))
        client = open_client(self._session, service, config=config)
        bound_answers(client, AWS)
        return client


@contextmanager
def _asking(what: str) -> Iterator[None]:
    with asking(what, whom=AWS, hint=_HINT):
        yield


def _bounded(page: Any, kind: str) -> list[Any]:  # noqa: ANN401 - moto leaves out what AWS has
    """Roles or users that a policy bounds."""
    return list(page.get(f"Policy{kind}s", ()))


def _found(get: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it gets
    """Call AWS; ``None`` when AWS reports that the requested thing does not exist."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - loads for half a second

    try:
        return get()
    except ClientError as error:
        if _code(error) in _MISSING:
            return None
        raise


def _code(error: Any) -> str:  # noqa: ANN401 - of a library that loads late
    return str(error.response.get("Error", {}).get("Code", ""))


def _owned(spec: BootstrapSpec) -> Any:  # noqa: ANN401 - arguments of calls
    return {"Bucket": spec.bucket, "ExpectedBucketOwner": spec.account}


def _key_of(state: AccountState) -> str:
    if state.key is None:
        raise BrokenInvariantError("a step needs the key, and there is none")
    return state.key.arn


def _key_id(state: AccountState) -> str:
    return _key_of(state).rpartition("/")[2]


def _role_of(step: Step) -> PipelineRole:
    if step.role is None:
        raise BrokenInvariantError(f"{step.thing} is no role")
    return step.role


def _tag_list(spec: BootstrapSpec) -> Any:  # noqa: ANN401 - as the stubs call it
    return [{"Key": name, "Value": text} for name, text in spec.tags.items()]


def _tags(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def _document(document: Any) -> Any:  # noqa: ANN401 - botocore decodes it, or does not
    return json.loads(unquote(document)) if isinstance(document, str) else document


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements = policy.get("Statement", [])
    return [statements] if isinstance(statements, Mapping) else list(statements)
