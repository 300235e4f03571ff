"""Provider plugins of one run: their processes, the providers in them, where their log lines go."""
