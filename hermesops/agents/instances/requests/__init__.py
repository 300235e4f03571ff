"""What operators ask of instances: checked, then written as rows that say so."""
