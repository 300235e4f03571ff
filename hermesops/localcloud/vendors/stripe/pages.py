"""Pages of the stand-in of Stripe for payers: checkout and portal."""

import html
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hermesops.localcloud.vendors.stripe.books import PRICES, Books
from hermesops.localcloud.vendors.stripe.errors import StripeError

LARGEST = 64 * 1024
"""Bytes of a request's body that are read."""


class PayersPages:
    """Pages on which payers pay, and change or end their subscriptions. No money moves.

    Args:
        books: The account.
        url: Of the stand-in, with its prefix.
    """

    def __init__(self, books: Books, url: str) -> None:
        self.books = books
        self.url = url

    def routes(self) -> list[Route]:
        """Their routes, below the stand-in's prefix."""
        return [
            Route("/pay/{id}", self._show_checkout, methods=["GET"]),
            Route("/pay/{id}", self._act_on_checkout, methods=["POST"]),
            Route("/portal/{id}", self._show_portal, methods=["GET"]),
            Route("/portal/{id}", self._act_on_portal, methods=["POST"]),
        ]

    async def _show_checkout(self, request: Request) -> Response:
        try:
            session = self.books.session(request.path_params["id"])
        except StripeError as error:
            return _page("Checkout", f"<p>{html.escape(str(error))}</p>", HTTPStatus.NOT_FOUND)
        if session["status"] != "open":
            return _page("Checkout", "<p>This page is closed.</p>", HTTPStatus.GONE)
        plan, cents = PRICES[self.books.sessions[session["id"]]["price"]]
        words = f"<p>Plan {plan}, {cents / 100:.2f} EUR a month. No money moves here.</p>"
        back = html.escape(session["cancel_url"])
        form = _form({"pay": f"Pay {cents / 100:.2f} EUR"}) + f'<p><a href="{back}">Back without paying</a></p>'
        return _page("Checkout", words + form, back=session["success_url"])

    async def _act_on_checkout(self, request: Request) -> Response:
        try:
            session = self.books.pay(request.path_params["id"])
        except StripeError as error:
            return _page("Checkout", f"<p>{html.escape(str(error))}</p>", HTTPStatus.GONE)
        self.books.keep()
        return RedirectResponse(session["success_url"], HTTPStatus.SEE_OTHER)

    async def _show_portal(self, request: Request) -> Response:
        portal = self.books.portals.get(request.path_params["id"])
        if portal is None:
            return _page("Your subscription", "<p>This page is closed.</p>", HTTPStatus.GONE)
        subscriptions = self.books.of_customer(portal["customer"])
        shown = "".join(_subscription_words(each) for each in subscriptions[:5])
        back = f'<p><a href="{html.escape(portal["return_url"])}">Back</a></p>'
        actions = {
            "cancel": "End with the period",
            "renew": "Go on after the period",
            "heavy": "Change to plan heavy",
            "light": "Change to plan light",
            "fail": "Let the payment fail",
            "succeed": "Pay the open invoice",
            "end": "End at once",
        }
        return _page("Your subscription", shown + _form(actions) + back)

    async def _act_on_portal(self, request: Request) -> Response:
        portal = self.books.portals.get(request.path_params["id"])
        subscriptions = self.books.of_customer(portal["customer"]) if portal else []
        if portal and subscriptions:
            action = dict(parse_qsl((await request.body())[:LARGEST].decode())).get("action", "")
            try:
                self._act(subscriptions[0]["id"], action)
            except StripeError as error:
                return _page("Your subscription", f"<p>{html.escape(str(error))}</p>", HTTPStatus.CONFLICT)
            self.books.keep()
        return RedirectResponse(f"{self.url}/portal/{request.path_params['id']}", HTTPStatus.SEE_OTHER)

    def _act(self, subscription_id: str, action: str) -> None:
        match action:
            case "cancel" | "renew":
                self.books.update(subscription_id, ends_with_period=action == "cancel")
            case "light" | "heavy":
                self.books.update(subscription_id, price=f"price_{action}")
            case "fail" | "succeed" | "end":
                status = {"fail": "past_due", "succeed": "active", "end": "canceled"}[action]
                self.books.set_status(subscription_id, status)


def _subscription_words(subscription: Mapping[str, Any]) -> str:
    plan, _ = PRICES[subscription["items"]["data"][0]["price"]["id"]]
    ends = ", ends with the period" if subscription["cancel_at_period_end"] else ""
    return f"<p>Plan {plan}: {html.escape(subscription['status'])}{ends}</p>"


def _form(actions: Mapping[str, str]) -> str:
    buttons = "".join(
        f'<p><button name="action" value="{name}">{html.escape(words)}</button></p>' for name, words in actions.items()
    )
    return f'<form method="post">{buttons}</form>'


def _page(title: str, body: str, status: int = HTTPStatus.OK, *, back: str = "") -> Response:
    onward = f" {'/'.join(back.split('/')[:3])}" if back else ""
    policy = f"default-src 'none'; form-action 'self'{onward}; frame-ancestors 'none'; base-uri 'none'"
    content = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main>'
        f"<h1>{title}</h1><p>A stand-in of Stripe in the local world.</p>{body}</main></body></html>"
    )
    headers = {"content-security-policy": policy, "cache-control": "no-store", "referrer-policy": "no-referrer"}
    return HTMLResponse(content, status, headers=headers)
