"""Word count: how often each word occurs in the records of a topic.

    python examples/word_count.py
    python examples/word_count.py --bootstrap-servers broker-1:9092 --topic lines

The first command starts a broker, writes a poem to it and counts its words; the second counts those in your topic.
Each record is a line of text. The query reads everything there is and ends (`availableNow`); without that trigger it
would keep running, and the counts would grow.
"""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812

from _support import command_line, kafka, spark_session

POEM = """\
The curfew tolls the knell of parting day,
The lowing herd wind slowly o'er the lea,
The ploughman homeward plods his weary way,
And leaves the world to darkness and to me.

Now fades the glimm'ring landscape on the sight,
And all the air a solemn stillness holds,
Save where the beetle wheels his droning flight,
And drowsy tinklings lull the distant folds;
"""


def main() -> None:
    given = command_line(__doc__, topic="lines").parse_args()
    lines = {given.topic: POEM.encode().splitlines()}
    with kafka(given.bootstrap_servers, lines) as servers, spark_session("word count") as spark:
        records = (
            spark.readStream.format("evensplit")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", given.topic)
            .option("startingOffsets", "earliest")
            .option("columns", "value")
            .load()
        )
        text = F.lower(F.col("value").cast("string"))
        words = records.select(F.explode(F.split(text, r"[^\w']+")).alias("word")).where("word <> ''")
        counts = words.groupBy("word").count()
        # A table in memory, since the result is small. With a checkpointLocation, the next run would continue there.
        query = (
            counts.writeStream.outputMode("complete")
            .format("memory")
            .queryName("counts")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.table("counts").orderBy(F.desc("count"), "word").collect()
    for row in found[:10]:
        print(f"{row['count']:>8,}  {row.word}")
    print(f"{sum(row['count'] for row in found):>8,}  words, {len(found):,} distinct")


if __name__ == "__main__":
    main()
