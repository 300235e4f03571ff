"""Rollouts of releases, images and tokens to many agents, in stages that halt when a gate fails.

The story downward: ``plan`` checks a request and places its targets in stages and batches, ``service`` writes the
rollout. ``steps`` observes it (``watch``), decides and does one step after another; ``target.deployment`` brings one
machine to the release, by ``machines``. ``gates`` give the verdict; ``operators`` pause, approve and roll back.
"""
