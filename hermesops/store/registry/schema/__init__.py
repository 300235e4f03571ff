"""The tables as code knows them, and the revision that a database must be at."""
