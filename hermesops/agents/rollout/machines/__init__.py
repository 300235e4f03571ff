"""A rollout's actions on machines: releases in their slots, relocation, and proxy tokens."""
