"""Instances from provision to termination: requests open operations, workflows do them."""
