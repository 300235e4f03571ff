"""Files both ways: their kinds, references to users' files, and files of agents."""
