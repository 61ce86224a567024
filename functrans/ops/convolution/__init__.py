"""Windows that slide along arrays, and the contractions with them: convolution."""
