"""Runs on AWS: gives users' tokens the claim by which Supabase chooses the role of PostgreSQL.

Source: Supabase's documentation, "Third-party auth: AWS Cognito"; Cognito developer guide, "Pre token generation Lambda
trigger", event version 2. It imports nothing of hermesops.
"""

from typing import Any


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Add ``role: authenticated`` to the identity and the access token."""
    claims = {"claimsToAddOrOverride": {"role": "authenticated"}}
    event["response"] = {
        "claimsAndScopeOverrideDetails": {"idTokenGeneration": claims, "accessTokenGeneration": claims}
    }
    return event
