"""Refusals of the stand-in of Stripe."""


class StripeError(Exception):
    """A refusal as Stripe gives it.

    Attributes:
        status: Of HTTP.
        kind: Stripe's type of the error.
    """

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
