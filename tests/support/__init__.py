"""What several tests need: producing and consuming with an independent client, and waiting for a condition."""
