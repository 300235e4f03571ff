"""The platform's model router: who may ask, what it cost, and the hooks by which LiteLLM asks both.

Shipped to its host without the rest of hermesops: it imports only ``errors``, ``waiting``, ``model.ids`` and
``model.route``. The local world's router uses the same checks.
"""
