"""A registry that was lost: plan and carry out its reconstruction from machines and backups."""
