"""The loop language as LLVM IR."""
