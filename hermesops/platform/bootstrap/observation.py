"""An AWS account, looked at for a bootstrap. It changes nothing."""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from hermesops.errors import RefusedError
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.clients import (
    AwsClients,
    asking_aws,
    code_of,
    decoded,
    found_or_none,
    statements_of,
    tags_of,
)
from hermesops.platform.bootstrap.decide import (
    AccountState,
    BoundaryState,
    BucketState,
    KeyState,
    ProviderState,
    RoleState,
)
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole

PUBLIC_ACCESS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
"""Settings that together close a bucket to the public."""

POLICY = "hermesops"
"""The name of the policy that a role of pipelines has."""

DEFAULT_REGION = "us-east-1"
"""The one region that a bucket is made in without naming it, and that S3 calls by no name."""


class AccountObservation:
    """Reads the state of everything that a bootstrap is about."""

    def __init__(self, clients: AwsClients) -> None:
        self._clients = clients
        self._key_tags: dict[str, Mapping[str, str]] = {}
        """Of keys that were looked at before: an account may have hundreds, and each costs a request."""

    def observe(self, spec: BootstrapSpec) -> AccountState:
        """Everything that a bootstrap is about."""
        return AccountState(
            self._key(spec), self.bucket(spec), self._provider(spec), self._boundaries(spec), self._roles(spec)
        )

    def bucket(self, spec: BootstrapSpec) -> BucketState | None:
        """The bucket, ``None`` where there is none.

        Raises:
            RefusedError: It is somebody else's, or who asks may not look at it.
        """
        name: Any = {"Bucket": spec.bucket, "ExpectedBucketOwner": spec.account}
        with asking_aws(f"bucket {spec.bucket}"):
            try:
                self._clients.s3.head_bucket(**name)
            except self._clients.s3.exceptions.ClientError as error:
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
            region = self._clients.s3.get_bucket_location(**name).get("LocationConstraint") or DEFAULT_REGION
            block = found_or_none(
                lambda: self._clients.s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"]
            )
            owner = found_or_none(
                lambda: self._clients.s3.get_bucket_ownership_controls(**name)["OwnershipControls"]["Rules"]
            )
            policy = found_or_none(lambda: self._clients.s3.get_bucket_policy(**name)["Policy"])
            rules = found_or_none(lambda: self._clients.s3.get_bucket_lifecycle_configuration(**name)["Rules"])
            return BucketState(
                region=region,
                is_versioned=self._clients.s3.get_bucket_versioning(**name).get("Status") == "Enabled",
                key=self._bucket_key(name),
                blocks_public=bool(block) and all(block.get(name) for name in PUBLIC_ACCESS),
                owns_objects=any(rule["ObjectOwnership"] == "BucketOwnerEnforced" for rule in owner or ()),
                policy=statements_of(json.loads(policy)) if policy else (),
                rules=rules or (),
                tags=tags_of(found_or_none(lambda: self._clients.s3.get_bucket_tagging(**name)["TagSet"])),
                content=self._content(name),
            )

    def key_metadata(self, key: str) -> Mapping[str, Any] | None:
        """The metadata of a key, by id or alias; ``None`` where there is none."""
        metadata: Mapping[str, Any] | None = found_or_none(
            lambda: self._clients.kms.describe_key(KeyId=key)["KeyMetadata"]
        )
        return metadata

    def _key(self, spec: BootstrapSpec) -> KeyState | None:
        with asking_aws(f"keys of {spec.account}"):
            named = self.key_metadata(spec.alias)
            tagged = sorted(self._tagged_keys(spec), key=lambda metadata: (metadata["CreationDate"], metadata["KeyId"]))
            key = named or next(iter(tagged), None)
            if key is None:
                return None
            key_id, is_going = key["KeyId"], key["KeyState"] == "PendingDeletion"
            pages = self._clients.kms.get_paginator("list_aliases").paginate(KeyId=key_id)
            aliases = [alias["AliasName"] for page in pages for alias in page["Aliases"]]
            return KeyState(
                arn=key["Arn"],
                is_usable=key["KeyState"] == "Enabled",
                is_going=is_going,
                rotates=not is_going and self._clients.kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"],
                is_named=named is not None,
                others=tuple(metadata["KeyId"] for metadata in tagged if metadata["KeyId"] != key_id),
                aliases=tuple(alias for alias in aliases if alias != spec.alias),
                grants=len(self._clients.kms.list_grants(KeyId=key_id)["Grants"]),
            )

    def _tagged_keys(self, spec: BootstrapSpec) -> Iterator[Mapping[str, Any]]:
        """Customers' keys with our tags, but those that are going to be deleted."""
        for page in self._clients.kms.get_paginator("list_keys").paginate():
            for listed in page["Keys"]:
                key_id = listed["KeyId"]
                if key_id not in self._key_tags:
                    self._key_tags[key_id] = self._tags_of_key(key_id)
                if spec.tags.items() <= self._key_tags[key_id].items():
                    metadata = self.key_metadata(key_id)
                    if metadata and metadata["KeyState"] not in {"PendingDeletion", "PendingReplicaDeletion"}:
                        yield metadata

    def _tags_of_key(self, key_id: str) -> Mapping[str, str]:
        try:
            tags = self._clients.kms.list_resource_tags(KeyId=key_id)["Tags"]
        except self._clients.kms.exceptions.ClientError as error:
            if code_of(error) == "AccessDeniedException":  # Amazon's own, or somebody else's
                return {}
            raise
        return {tag["TagKey"]: tag["TagValue"] for tag in tags}

    def _bucket_key(self, name: Any) -> str:  # noqa: ANN401 - arguments of every call
        rules = found_or_none(
            lambda: self._clients.s3.get_bucket_encryption(**name)["ServerSideEncryptionConfiguration"]["Rules"]
        )
        for rule in rules or ():
            default = rule.get("ApplyServerSideEncryptionByDefault", {})
            if default.get("SSEAlgorithm") == "aws:kms" and rule.get("BucketKeyEnabled"):
                return str(default.get("KMSMasterKeyID", ""))
        return ""

    def _content(self, name: Any) -> str:  # noqa: ANN401 - as above
        listing = self._clients.s3.list_object_versions(**name, MaxKeys=1)
        versions = [*listing.get("Versions", ()), *listing.get("DeleteMarkers", ())]
        return str(versions[0]["Key"]) if versions else ""

    def _provider(self, spec: BootstrapSpec) -> ProviderState | None:
        with asking_aws(f"provider {spec.issuer}"):
            arn = spec.provider_arn
            provider: Any = found_or_none(
                lambda: self._clients.iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
            )
            if provider is None:
                return None
            ours = {spec.role(role) for role in PipelineRole}
            pages = self._clients.iam.get_paginator("list_roles").paginate()
            users = (
                role["RoleName"]
                for page in pages
                for role in page["Roles"]
                if role["RoleName"] not in ours and arn in json.dumps(decoded(role["AssumeRolePolicyDocument"]))
            )
            return ProviderState(tuple(provider["ClientIDList"]), tags_of(provider.get("Tags")), tuple(users))

    def _boundaries(self, spec: BootstrapSpec) -> dict[str, BoundaryState]:
        states = {name: self._boundary(spec, name) for name in boundaries(spec)}
        return {name: state for name, state in states.items() if state}

    def _boundary(self, spec: BootstrapSpec, name: str) -> BoundaryState | None:
        with asking_aws(f"policy {name}"):
            arn = spec.policy_arn(name)
            policy: Any = found_or_none(lambda: self._clients.iam.get_policy(PolicyArn=arn)["Policy"])
            if policy is None:
                return None
            version = self._clients.iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])
            tags: Any = self._clients.iam.list_policy_tags(PolicyArn=arn)["Tags"]
            pages = self._clients.iam.get_paginator("list_entities_for_policy").paginate(
                PolicyArn=arn, PolicyUsageFilter="PermissionsBoundary"
            )
            users = tuple(
                entity[f"{kind}Name"] for page in pages for kind in ("Role", "User") for entity in _bounded(page, kind)
            )
            return BoundaryState(decoded(version["PolicyVersion"]["Document"]), tags_of(tags), users)

    def _roles(self, spec: BootstrapSpec) -> dict[PipelineRole, RoleState]:
        states = {role: self._role(spec.role(role)) for role in PipelineRole}
        return {role: state for role, state in states.items() if state}

    def _role(self, name: str) -> RoleState | None:
        with asking_aws(f"role {name}"):
            role: Any = found_or_none(lambda: self._clients.iam.get_role(RoleName=name)["Role"])
            if role is None:
                return None
            inline = self._clients.iam.list_role_policies(RoleName=name)["PolicyNames"]
            attached = self._clients.iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
            own = (
                decoded(self._clients.iam.get_role_policy(RoleName=name, PolicyName=POLICY)["PolicyDocument"])
                if POLICY in inline
                else None
            )
            others = (
                *(policy for policy in inline if policy != POLICY),
                *(policy["PolicyName"] for policy in attached),
            )
            tags: Any = self._clients.iam.list_role_tags(RoleName=name)["Tags"]
            return RoleState(decoded(role["AssumeRolePolicyDocument"]), own, tags_of(tags), others)


def _bounded(page: Any, kind: str) -> list[Any]:  # noqa: ANN401 - moto leaves out what AWS has
    """Roles or users that a policy bounds."""
    return list(page.get(f"Policy{kind}s", ()))
