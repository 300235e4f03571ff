"""A local world as its operator sees it: its files, its driver, what runs beside it."""
