"""Loop transformations: fusion of roots into nests; splitting, tiling and vectorisation."""
