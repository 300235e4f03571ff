"""A local world as its operator sees it: where it is, what it stands on, what runs beside it."""
