"""Events of the past: of one instance, and of the fleet."""
