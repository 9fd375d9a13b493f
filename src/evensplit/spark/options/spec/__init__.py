"""Every option of `format("evensplit")`, declared."""
