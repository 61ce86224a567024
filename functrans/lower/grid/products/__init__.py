"""Matrix products, in tiles that teams of threads compute."""
