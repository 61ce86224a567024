"""The compiled forms of functions of complex numbers: on their real and imaginary parts."""
