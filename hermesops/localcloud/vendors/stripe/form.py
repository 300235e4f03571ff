"""Forms in Stripe's notation, ``a[b][0][c]=d``. Pure.

Source: https://docs.stripe.com/api (parameters of requests are form-encoded).
"""

import re
from typing import Any
from urllib.parse import parse_qsl

_WORDS = re.compile(r"[^\[\]]+")


def parameters_of(text: str) -> dict[str, Any]:
    """The parameters of a form in Stripe's notation, ``a[b][0][c]=d``. Pure."""
    parameters: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        words = _WORDS.findall(name)
        into = parameters
        for word in words[:-1]:
            into = into.setdefault(word, {})
        into[words[-1]] = value
    return {name: _listed(value) for name, value in parameters.items()}


def _listed(value: object) -> object:
    """A group whose names are numbers is a list."""
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(each) for name, each in value.items()}
    return list(inner.values()) if inner and all(name.isdigit() for name in inner) else inner
