"""Sign-in of operators at the served console: a pool of Cognito apart from the users', with two factors."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.cognito import ClientArgs, public_client
from hermesops.infra.stacks.platform.spec import Place

NAME = "operators"

ROLES: Mapping[str, str] = {
    "viewers": "Read every page of the console",
    "operators": "Also make changes that can be undone",
    "admins": "Also make changes that destroy something",
}
"""Groups of the pool, each named as the setting of table ``console`` that gives it a role."""

_TOKEN_MINUTES = 15
"""As old as a proof may be that workers take; the console renews it after five minutes."""

_REFRESH_HOURS = 1
"""As long as a session of the console."""


@dataclass(frozen=True)
class OperatorPoolArgs:
    """A pool of operators.

    Attributes:
        sign_in_url: URL of the console to which browsers come back.
    """

    place: Place
    sign_in_url: str


class OperatorPool(pulumi.ComponentResource):
    """People whom an administrator of the account adds; nobody signs up, and each has a second factor.

    Attributes:
        settings: Settings of table ``console`` that describe the issuer and the groups of its roles.
    """

    settings: Mapping[str, Input[str]]

    def __init__(self, name: str, args: OperatorPoolArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:OperatorPool", name, None, opts)
        children = ResourceOptions(parent=self)
        pool = self._pool(args.place)
        for precedence, (group, what) in enumerate(reversed(list(ROLES.items())), start=1):
            aws.cognito.UserGroup(
                f"{NAME}-{group}",
                name=group,
                user_pool_id=pool.id,
                description=what,
                precedence=precedence,
                opts=children,
            )
        client_args = ClientArgs(
            pool.id, [args.sign_in_url], [], token_minutes=_TOKEN_MINUTES, refresh_hours=_REFRESH_HOURS
        )
        client = public_client("console", client_args, children)
        # Below Amazon's own domain: a name of ours would need a certificate, for a page that few people see.
        pages = aws.cognito.UserPoolDomain(
            NAME,
            domain=args.place.bucket(NAME),  # no other account may have it already
            user_pool_id=pool.id,
            managed_login_version=2,
            opts=children,
        )
        self.settings = _settings(args.place, pool, client, pages)
        self.register_outputs({"issuer": self.settings["issuer"]})

    def _pool(self, place: Place) -> aws.cognito.UserPool:
        return aws.cognito.UserPool(
            NAME,
            name=f"{place.prefix}-{NAME}",
            user_pool_tier="ESSENTIALS",  # the least that has managed login, which asks anew by prompt=login
            deletion_protection="ACTIVE",
            admin_create_user_config={"allow_admin_create_user_only": True},
            username_attributes=["email"],
            username_configuration={"case_sensitive": False},
            auto_verified_attributes=["email"],
            user_attribute_update_settings={"attributes_require_verification_before_updates": ["email"]},
            # Whoever has an operator's mailbox alone gets no password.
            account_recovery_setting={"recovery_mechanisms": [{"name": "admin_only", "priority": 1}]},
            mfa_configuration="ON",
            software_token_mfa_configuration={"enabled": True},
            password_policy={
                "minimum_length": 16,
                "require_lowercase": True,
                "require_numbers": True,
                "require_symbols": False,
                "require_uppercase": True,
                "temporary_password_validity_days": 1,
            },
            tags=place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )


def _settings(
    place: Place, pool: aws.cognito.UserPool, client: aws.cognito.UserPoolClient, pages: aws.cognito.UserPoolDomain
) -> dict[str, Input[str]]:
    """Source: Cognito developer guide, "User pool endpoints and managed login reference", "ID token" (its groups)."""
    issuer = Output.concat("https://cognito-idp.", place.region, ".amazonaws.com/", pool.id)
    oauth = Output.concat("https://", pages.domain, ".auth.", place.region, ".amazoncognito.com/oauth2")
    return {
        "issuer": issuer,
        "client_id": client.id,
        "keys_url": Output.concat(issuer, "/.well-known/jwks.json"),
        "authorize_url": Output.concat(oauth, "/authorize"),
        "token_url": Output.concat(oauth, "/token"),
        "scope": "openid email",
        "name_claim": "email",
        "groups_claim": "cognito:groups",
        **{group: group for group in ROLES},
    }
