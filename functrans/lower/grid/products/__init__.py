"""Products of matrices, in tiles that teams of threads compute."""
