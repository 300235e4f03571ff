"""Steps that several workflows share."""
