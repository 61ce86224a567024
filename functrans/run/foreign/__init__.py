"""Foreign functions that programs call, and programs that foreign code calls."""
