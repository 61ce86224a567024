"""The compiled forms of linear algebra: written out, or by BLAS and LAPACK."""
