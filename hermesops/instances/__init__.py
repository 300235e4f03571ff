"""From a user's first minute to the last: decide (pure) and do."""
