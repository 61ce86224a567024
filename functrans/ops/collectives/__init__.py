"""Collectives: operations that exchange values between the lanes of a named axis."""
