"""The instance on a machine: personalised, warm, drained, fenced, observed."""
