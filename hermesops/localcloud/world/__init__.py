"""A local world from its operator's view: its files, its driver, the services beside it."""
