"""What a bootstrap of an environment makes, from its settings."""

from collections.abc import Callable
from urllib.parse import urlsplit

from hermesops.bootstrap.account import Account
from hermesops.bootstrap.runner import Bootstrap
from hermesops.bootstrap.spec import BootstrapSpec, PipelineRole, bucket_of
from hermesops.engine.embedded.state.bucket import parse_bucket
from hermesops.errors import Hint, UsageError
from hermesops.settings import Environment


def bootstrap_of(
    env: Environment, *, account: str, region: str, undo: bool, report: Callable[[str], None]
) -> Bootstrap:
    """The bootstrap of an environment.

    Args:
        account: What ``--account`` says; empty: the setting.
        region: What ``--region`` says; empty: the setting.

    Raises:
        UsageError: The environment has no account or no region, or an option contradicts a setting.
    """
    if env.is_local:
        raise UsageError(
            "the local world needs no AWS account",
            hint=Hint(("env", "list"), "shows the others; choose one by --env"),
        )
    spec = spec_of(env, account=account, region=region)
    return Bootstrap(spec, Account(spec.region), report, undo)


def spec_of(env: Environment, *, account: str = "", region: str = "") -> BootstrapSpec:
    """What a bootstrap of an environment makes.

    Raises:
        UsageError: The environment has no account or no region, or an option contradicts a setting.
    """
    settings = env.settings
    chosen = _agreed("account", account, settings.platform.account)
    place = _agreed("region", region, settings.platform.region)
    if not (chosen.isascii() and chosen.isdigit() and len(chosen) == 12):  # noqa: PLR2004 - as AWS numbers them
        raise UsageError(f"account {chosen!r}: an AWS account has 12 digits")
    return BootstrapSpec(
        environment=env.name,
        account=chosen,
        region=place,
        bucket=_bucket(settings.pulumi.backend, place) or bucket_of(env.name, chosen),
        issuer=settings.oidc.issuer,
        audience=settings.oidc.audience,
        subjects={
            PipelineRole.PREVIEW: _patterns(settings.oidc.preview_subjects),
            PipelineRole.APPLY: _patterns(settings.oidc.subjects),
        },
    )


def _agreed(what: str, option: str, setting: str) -> str:
    if option and setting and option != setting:
        raise UsageError(f"--{what} {option} contradicts platform.{what} {setting}", hint=Hint(("settings", "show")))
    if not (option or setting):
        raise UsageError(f"which {what}?", hint=f"set platform.{what}, or name it by --{what}")
    return option or setting


def _bucket(backend: str, region: str) -> str:
    """The bucket that the settings name; empty for none."""
    if not backend:
        return ""
    if urlsplit(backend).scheme != "s3":
        raise UsageError(
            f"pulumi.backend {backend} is no bucket", hint="leave it empty, or spell it s3://BUCKET?region=REGION"
        )
    bucket = parse_bucket(backend)
    named = bucket.texts.get("region", region)
    if named != region:
        raise UsageError(f"pulumi.backend names region {named}, the platform is in {region}")
    return bucket.name


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())
