"""Elementary and special functions as scalar expressions: arithmetic without calls or branches.

Each function takes float16, float32 or float64 scalars (`functrans.ir.scalar`) of one dtype and
gives a scalar of that dtype: straight-line code that a compiler turns into vector instructions.
Zeros, infinities, NaN and subnormal numbers mean what they mean to NumPy.
"""
