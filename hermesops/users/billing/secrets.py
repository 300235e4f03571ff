"""The secrets that Stripe's events are verified with, and that Stripe is asked with."""

from hermesops.access.secrets.catalog import BILLING_KEY, BILLING_SECRET
from hermesops.access.secrets.store import Secrets
from hermesops.errors import RefusedError
from hermesops.settings.sections import BillingSettings
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.events import Rules
from hermesops.users.billing.stripe_api import StripeApi


def rules_of(settings: BillingSettings, secrets: Secrets, *, is_production: bool) -> Rules:
    """Rules for accepting Stripe's events in an environment, from its settings and secrets.

    Raises:
        RefusedError: There is no signing secret, or what there is is none.
    """
    lines = tuple(line.strip() for line in secrets.read(BILLING_SECRET).splitlines() if line.strip())
    if not lines or not all(line.startswith("whsec_") for line in lines):
        raise RefusedError(
            f"{secrets.where(BILLING_SECRET)} has something else than signing secrets of an endpoint",
            hint="they begin with whsec_ in Stripe's dashboard",
        )
    livemode = _is_live(settings, is_production=is_production)
    return Rules(lines, settings.tolerance_s, livemode, settings.account, settings.product, settings.user_key)


def stripe_api(settings: BillingSettings, secrets: Secrets, *, is_production: bool, url: str = "") -> StripeApi | None:
    """Stripe's API; ``None`` where there is no key to it.

    Args:
        url: Of its stand-in in a local world; empty for Stripe's own.

    Raises:
        RefusedError: The key is of the other mode, or no secret key at all.
    """
    key = secrets.find(BILLING_KEY)
    if key is None:
        return None
    mode = "live" if _is_live(settings, is_production=is_production) else "test"
    if not key.startswith((f"sk_{mode}_", f"rk_{mode}_")):
        raise RefusedError(f"billing.key is no key of Stripe's {mode} mode", hint=f"it begins with rk_{mode}_")
    return StripeApi(key, url)


def subscriptions_at_stripe(settings: BillingSettings, api: StripeApi | None) -> StripeSubscriptions | None:
    """Subscriptions of the product that agents are sold as; ``None`` where Stripe is not asked."""
    return StripeSubscriptions(api, settings.user_key, settings.product) if api else None


def _is_live(settings: BillingSettings, *, is_production: bool) -> bool:
    return is_production if settings.livemode == "auto" else settings.livemode == "live"
