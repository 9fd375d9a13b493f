"""Copies a topic until it is stopped. The password is in the environment of each pod, not here."""

from pyspark.sql import SparkSession

import evensplit

spark = SparkSession.builder.appName("orders").getOrCreate()
evensplit.register(spark)
login = "org.apache.kafka.common.security.scram.ScramLoginModule required "
kafka = {
    "kafka.bootstrap.servers": "broker-1.kafka:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": login + 'username="orders" password="${env:KAFKA_PASSWORD}";',
}
orders = spark.readStream.format("evensplit").options(**kafka).option("subscribe", "orders").load()
query = (
    orders.select("value")
    .writeStream.format("evensplit")
    .options(**kafka)
    .option("topic", "copies")
    .option("checkpointLocation", "/checkpoints/copies")
    .start()
)
query.awaitTermination()
spark.stop()
