"""Loop transformations: roots are fused into nests, whose loops are split, tiled, vectorised."""
