"""Helpers of several tests, such as producing and consuming with an independent client, and waiting for a condition."""
