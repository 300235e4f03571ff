"""Changes of stacks before they are made: previews, baselines, limits and approvals."""
