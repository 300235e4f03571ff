"""Operations of one instance, a module each: ``decide`` is pure and returns a step, ``do`` carries it out."""
