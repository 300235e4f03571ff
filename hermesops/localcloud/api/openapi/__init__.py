"""The OpenAPI document of localcloud: what of the vendor's API is served here, in the words of its own schema."""
