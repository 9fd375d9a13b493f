"""A Kafka source for PySpark that decides, provably well, which reader reads what."""
