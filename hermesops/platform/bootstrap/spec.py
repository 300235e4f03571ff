"""Names of everything that a bootstrap creates in an account, and its checks of settings. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from hermesops.errors import Hint, UsageError
from hermesops.model.access.pipeline_subject import unreviewed_match

DELETION_DAYS = 30
"""Days for which a key that undo deleted can still be restored."""

SESSION_S = 3600
"""Seconds for which a pipeline holds a role."""

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[^*?\[:]+:[^*?\[:]+:")
"""What a pattern of subjects begins with: of whom they are, as ``repo:OWNER/NAME:``."""


class PipelineRole(StrEnum):
    """Permissions of a pipeline's role. Both roles belong to the main branch: jobs of pull requests have no role."""

    PREVIEW = "preview"
    APPLY = "apply"


@dataclass(frozen=True)
class BootstrapSpec:
    """Specification of a bootstrap.

    Attributes:
        account: 12 digits.
        issuer: URL of who signs pipelines' tokens.
        subjects: Patterns of claim ``sub``, by what those pipelines may do.
    """

    environment: str
    account: str
    region: str
    bucket: str
    issuer: str
    audience: str
    subjects: Mapping[PipelineRole, Sequence[str]]

    @property
    def partition(self) -> str:
        """The part of AWS that the region is in, as ARNs begin with it."""
        beginnings = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
        return next((name for prefix, name in beginnings.items() if self.region.startswith(prefix)), "aws")

    @property
    def alias(self) -> str:
        """Alias under which KMS knows the key of Pulumi's state."""
        return f"alias/hermesops-{self.environment}-state"

    @property
    def tags(self) -> dict[str, str]:
        """Tags of all resources of the bootstrap, by which later runs recognise them."""
        return {"hermesops:environment": self.environment, "hermesops:made-by": "platform-bootstrap"}

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket with Pulumi's state."""
        return f"arn:{self.partition}:s3:::{self.bucket}"

    @property
    def issuer_host(self) -> str:
        """The issuer as IAM names it: without its scheme."""
        return self.issuer.removeprefix("https://").rstrip("/")

    @property
    def provider_arn(self) -> str:
        """The ARN of the provider of identities."""
        return f"arn:{self.partition}:iam::{self.account}:oidc-provider/{self.issuer_host}"

    @property
    def boundary(self) -> str:
        """Name of the policy that bounds every role that the platform's program makes."""
        return f"hermesops-{self.environment}-boundary"

    @property
    def users_boundary(self) -> str:
        """Name of the policy that bounds every IAM user that a host makes for backups."""
        return f"hermesops-{self.environment}-backup-user"

    @property
    def backend_url(self) -> str:
        """Value of setting ``pulumi.backend``: URL of the state bucket."""
        return f"s3://{self.bucket}?region={self.region}"

    def role(self, role: PipelineRole) -> str:
        """Name of a pipeline role in IAM."""
        return f"hermesops-{self.environment}-{role.value}"

    def role_arn(self, role: PipelineRole) -> str:
        """ARN of a pipeline role in the account."""
        return f"arn:{self.partition}:iam::{self.account}:role/{self.role(role)}"

    def policy_arn(self, name: str) -> str:
        """ARN of a boundary: outside the path below which pipelines change policies."""
        return f"arn:{self.partition}:iam::{self.account}:policy/{name}"

    def arn(self, service: str, name: str) -> str:
        """ARN of something of a service that has regions."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{name}"


def bucket_of(environment: str, account: str) -> str:
    """Name of the bucket where the settings name none."""
    return f"hermesops-{environment}-state-{account}".replace("_", "-")


def check(spec: BootstrapSpec) -> None:
    """Refuse settings that AWS would refuse half-way, and subjects that would let any pipeline in.

    Raises:
        UsageError: A setting is missing, is not what it has to be, or lets other people's pipelines in.
    """
    settings = Hint(("settings", "show"), ": oidc.issuer, oidc.audience, oidc.subjects, oidc.preview_subjects")
    parts = urlsplit(spec.issuer)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"oidc.issuer {spec.issuer!r} is not an https URL", hint=settings)
    if not spec.audience:
        raise UsageError("missing oidc.audience: the audience of the pipelines' tokens", hint=settings)
    if not _BUCKET_NAME.fullmatch(spec.bucket) or ".." in spec.bucket:
        raise UsageError(
            f"no bucket can be called {spec.bucket!r}", hint=Hint(("settings", "show"), ": pulumi.backend")
        )
    for role, name in ((PipelineRole.APPLY, "oidc.subjects"), (PipelineRole.PREVIEW, "oidc.preview_subjects")):
        if not spec.subjects[role]:
            raise UsageError(f"missing {name}: the pipelines that may {role.value}", hint=settings)
        for pattern in spec.subjects[role]:
            _check_subjects(name, pattern)


def _check_subjects(name: str, pattern: str) -> None:
    if not _PREFIX.match(pattern):
        raise UsageError(
            f"{name}: {pattern!r} admits pipelines of other people",
            hint="begin it with the repository's owner, as in repo:OWNER/NAME:environment:production",
        )
    if "[" in pattern:
        raise UsageError(f"{name}: IAM knows no [ ] in {pattern!r}", hint="spell the subjects out, with * and ?")
    # The role that only reads, too: it reads all of the state, and its job has the keys of everything else that reads.
    if subject := unreviewed_match(pattern):
        raise UsageError(
            f"{name}: {pattern!r} admits unreviewed code, as {subject}",
            hint="name an environment that is for main alone, as in repo:OWNER/NAME:environment:production",
        )
