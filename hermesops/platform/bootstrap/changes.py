"""Changes of an AWS account, one for each step of a bootstrap. It must not decide which."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.clients import (
    MISSING,
    AwsClients,
    asking_aws,
    code_of,
)
from hermesops.platform.bootstrap.decide import (
    AccountState,
    Action,
    Step,
)
from hermesops.platform.bootstrap.observation import DEFAULT_REGION, POLICY, PUBLIC_ACCESS
from hermesops.platform.bootstrap.spec import DELETION_DAYS, SESSION_S, BootstrapSpec, PipelineRole

_DONE_BY_ANOTHER = frozenset({"AlreadyExistsException", "BucketAlreadyOwnedByYou", "EntityAlreadyExists"})
"""Codes that a step meets where another bootstrap does the same at the same moment; what is there is observed next."""


class AccountChanges:
    """Carries out steps of a bootstrap; each may be repeated."""

    def __init__(self, clients: AwsClients) -> None:
        self._clients = clients

    def do(self, spec: BootstrapSpec, step: Step, state: AccountState) -> None:
        """Carry out a step; each may be repeated.

        Args:
            state: The account before the step.
        """
        from botocore.exceptions import ClientError  # noqa: PLC0415 - loads for half a second

        with asking_aws(f"{step.thing}: {step.action.value}"):
            try:
                self._doers[step.action](spec, step, state)
            except ClientError as error:
                if code_of(error) not in _DONE_BY_ANOTHER | MISSING:
                    raise

    @cached_property
    def _doers(self) -> Mapping[Action, Callable[[BootstrapSpec, Step, AccountState], object]]:
        return {
            Action.MAKE_KEY: self._make_key,
            Action.RESTORE_KEY: self._restore_key,
            Action.ROTATE_KEY: lambda _, __, state: self._clients.kms.enable_key_rotation(KeyId=_key_of(state)),
            Action.NAME_KEY: self._name_key,
            Action.MAKE_BUCKET: self._make_bucket,
            Action.TAG_BUCKET: self._tag_bucket,
            Action.BLOCK_PUBLIC: self._block_public,
            Action.OWN_OBJECTS: lambda spec, _, __: self._clients.s3.put_bucket_ownership_controls(
                **_owned(spec), OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
            ),
            Action.KEEP_VERSIONS: lambda spec, _, __: self._clients.s3.put_bucket_versioning(
                **_owned(spec), VersioningConfiguration={"Status": "Enabled"}
            ),
            Action.ENCRYPT_BUCKET: self._encrypt_bucket,
            Action.REQUIRE_TLS: self._require_tls,
            Action.EXPIRE_VERSIONS: self._expire_versions,
            Action.MAKE_PROVIDER: lambda spec, _, __: self._clients.iam.create_open_id_connect_provider(
                Url=spec.issuer, ClientIDList=[spec.audience], Tags=_tag_list(spec)
            ),
            Action.ADD_AUDIENCE: lambda spec, _, __: self._clients.iam.add_client_id_to_open_id_connect_provider(
                OpenIDConnectProviderArn=spec.provider_arn, ClientID=spec.audience
            ),
            Action.MAKE_BOUNDARY: lambda spec, step, _: self._clients.iam.create_policy(
                PolicyName=step.thing,
                PolicyDocument=json.dumps(boundaries(spec)[step.thing]),
                Description=f"What roles or users of the platform of {spec.environment} can have at most",
                Tags=_tag_list(spec),
            ),
            Action.CHANGE_BOUNDARY: self._change_boundary,
            Action.MAKE_ROLE: self._make_role,
            Action.CHANGE_TRUST: lambda spec, step, _: self._clients.iam.update_assume_role_policy(
                RoleName=step.thing, PolicyDocument=json.dumps(documents.trust(spec, _role_of(step)))
            ),
            Action.CHANGE_PERMISSIONS: lambda spec, step, state: self._clients.iam.put_role_policy(
                RoleName=step.thing,
                PolicyName=POLICY,
                PolicyDocument=json.dumps(documents.permissions(spec, _role_of(step), _key_of(state))),
            ),
            Action.DELETE_ROLE: self._delete_role,
            Action.DELETE_BOUNDARY: self._delete_boundary,
            Action.DELETE_PROVIDER: lambda spec, _, __: self._clients.iam.delete_open_id_connect_provider(
                OpenIDConnectProviderArn=spec.provider_arn
            ),
            Action.DELETE_BUCKET: lambda spec, _, __: self._clients.s3.delete_bucket(**_owned(spec)),
            Action.DELETE_ALIAS: lambda spec, _, __: self._clients.kms.delete_alias(AliasName=spec.alias),
            Action.DELETE_KEY: lambda _, __, state: self._clients.kms.schedule_key_deletion(
                KeyId=_key_id(state), PendingWindowInDays=DELETION_DAYS
            ),
        }

    def _make_key(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        tags = [{"TagKey": name, "TagValue": text} for name, text in spec.tags.items()]
        # Sent once: a second try would make a second key.
        self._clients.open("kms", tries=1).create_key(
            Description=f"Pulumi's state of {spec.environment}", Tags=tags, KeyUsage="ENCRYPT_DECRYPT"
        )

    def _restore_key(self, _: BootstrapSpec, __: Step, state: AccountState) -> None:
        if state.key and state.key.is_going:
            self._clients.kms.cancel_key_deletion(KeyId=_key_id(state))
        self._clients.kms.enable_key(KeyId=_key_id(state))

    def _name_key(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        self._clients.kms.create_alias(AliasName=spec.alias, TargetKeyId=_key_of(state))

    def _make_bucket(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        where: Any = {"CreateBucketConfiguration": {"LocationConstraint": spec.region}}
        try:
            self._clients.s3.create_bucket(Bucket=spec.bucket, **({} if spec.region == DEFAULT_REGION else where))
        except self._clients.s3.exceptions.BucketAlreadyExists as error:
            raise RefusedError(
                f"bucket {spec.bucket} is in another account",
                hint="name another one in pulumi.backend: bucket names are unique across AWS",
            ) from error

    def _tag_bucket(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        tags = {**(state.bucket.tags if state.bucket else {}), **spec.tags}
        self._clients.s3.put_bucket_tagging(
            **_owned(spec), Tagging={"TagSet": [{"Key": name, "Value": text} for name, text in tags.items()]}
        )

    def _block_public(self, spec: BootstrapSpec, _: Step, __: AccountState) -> None:
        blocked: Any = dict.fromkeys(PUBLIC_ACCESS, True)
        self._clients.s3.put_public_access_block(**_owned(spec), PublicAccessBlockConfiguration=blocked)

    def _encrypt_bucket(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        default: Any = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": _key_of(state)}
        rule: Any = {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
        self._clients.s3.put_bucket_encryption(**_owned(spec), ServerSideEncryptionConfiguration={"Rules": [rule]})

    def _require_tls(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        policy = documents.bucket_policy(spec)
        ours = {statement["Sid"] for statement in policy["Statement"]}
        others = [
            statement for statement in (state.bucket.policy if state.bucket else ()) if statement.get("Sid") not in ours
        ]
        document = {**policy, "Statement": [*policy["Statement"], *others]}
        self._clients.s3.put_bucket_policy(**_owned(spec), Policy=json.dumps(document))

    def _expire_versions(self, spec: BootstrapSpec, _: Step, state: AccountState) -> None:
        rule = documents.lifecycle()
        others = [other for other in (state.bucket.rules if state.bucket else ()) if other.get("ID") != rule["ID"]]
        rules: Any = {"Rules": [rule, *others]}
        self._clients.s3.put_bucket_lifecycle_configuration(**_owned(spec), LifecycleConfiguration=rules)

    def _make_role(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        role = _role_of(step)
        self._clients.iam.create_role(
            RoleName=step.thing,
            AssumeRolePolicyDocument=json.dumps(documents.trust(spec, role)),
            Description=f"Pipelines that {role.value} stacks of {spec.environment}",
            MaxSessionDuration=SESSION_S,
            Tags=_tag_list(spec),
        )

    def _change_boundary(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        arn, document = spec.policy_arn(step.thing), boundaries(spec)[step.thing]
        self._delete_old_versions(arn)  # AWS keeps five at most
        self._clients.iam.create_policy_version(PolicyArn=arn, PolicyDocument=json.dumps(document), SetAsDefault=True)

    def _delete_boundary(self, spec: BootstrapSpec, step: Step, _: AccountState) -> None:
        arn = spec.policy_arn(step.thing)
        self._delete_old_versions(arn)
        self._clients.iam.delete_policy(PolicyArn=arn)

    def _delete_old_versions(self, arn: str) -> None:
        for version in self._clients.iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                self._clients.iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])

    def _delete_role(self, _: BootstrapSpec, step: Step, __: AccountState) -> None:
        with suppress(self._clients.iam.exceptions.NoSuchEntityException):
            self._clients.iam.delete_role_policy(RoleName=step.thing, PolicyName=POLICY)
        self._clients.iam.delete_role(RoleName=step.thing)


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
