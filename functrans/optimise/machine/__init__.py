"""Graph passes for a machine: layouts, motion out of loops, legalisation, outlining."""
