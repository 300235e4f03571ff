"""Read-only checks: of machines against their roles, and of this computer against hermesops' requirements."""
