"""Sliding windows along arrays, and contractions with them: convolution."""
