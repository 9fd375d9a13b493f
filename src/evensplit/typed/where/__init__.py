"""Conditions over the columns of rows: SQL as Spark reads it, compiled to what the kernel evaluates."""
