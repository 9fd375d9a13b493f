"""Records of Avro: schemas, the types that Spark gives to them, programs for the kernel."""
