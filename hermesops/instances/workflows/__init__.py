"""Long work on one instance, a module each: decide (pure) and do."""
