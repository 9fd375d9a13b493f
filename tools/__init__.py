"""What `make` runs: set-up, checks, and the fetching of Kafka's jars."""
