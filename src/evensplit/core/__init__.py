"""The decisions: which splits there are, where each starts, who owns it, and what one batch reads.

Pure: no clock, randomness, environment, files, logging, threads, Spark or Kafka. The host feeds events to
`enumerator.step`, carries out the effects that come back, and keeps the state as `codec` writes it.
"""
