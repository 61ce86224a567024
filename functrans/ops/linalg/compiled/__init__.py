"""The compiled forms of linear algebra: unrolled, tiled, or by BLAS and LAPACK."""
