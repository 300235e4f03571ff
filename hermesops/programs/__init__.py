"""Programs that run elsewhere. Only what packs or starts them, and the local world, import them."""
