"""The platform's model router: admission of requests, accounting of their cost, and the hooks that LiteLLM calls.

Shipped to its host without the rest of hermesops: it imports only ``errors``, ``waiting``, ``model.ids`` and
``model.route``. The local world's router uses the same checks.
"""
