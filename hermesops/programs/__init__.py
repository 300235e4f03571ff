"""Programs that run on other hosts. Imported only by the code that packs or starts them, and by the local world."""
