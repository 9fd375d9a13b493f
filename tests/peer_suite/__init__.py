"""The tests of Spark's own Kafka source, as tests of this one: from what they check, with code of our own.

Where this source differs on purpose, the test says what Spark does and why it is not so here; docs/beside-spark.md has
all of that in one table. `L` to `P` below are Spark's suites, `1` to `25` the scenarios of them that tell most. What
has no test says why; `test_table.py` holds the table to what there is. Names of modules are within `tests`.

L: KafkaMicroBatchSourceSuite

| | Spark's test | here |
|---|---|---|
| 1 | maxOffsetsPerTrigger: shared in proportion, over a restart, ignored by Once | peer_suite/test_limits.py::test_the_limit_is_shared_in_proportion_also_over_a_restart_and_once_ignores_it unit/core/test_plan.py::test_the_limit_is_shared_as_spark_shares_it |
| 2 | minOffsetsPerTrigger and maxTriggerDelay | peer_suite/test_min_offsets.py::test_a_batch_waits_for_enough_offsets_or_for_the_delay |
| 3 | compositeReadLimit | peer_suite/test_min_offsets.py::test_a_batch_waits_and_is_limited |
| 4 | SPARK-26718 rate limit set to Long.Max | peer_suite/test_limits.py::test_the_greatest_limit_there_is_does_not_overflow |
| 5 | Trigger.AvailableNow | peer_suite/test_limits.py::test_available_now_keeps_the_limit_and_ends |
| 6 | Trigger.AvailableNow: partitions got unavailable | peer_suite/test_available_now.py::test_a_topic_that_is_created_anew_under_the_run_ends_it peer_suite/test_available_now.py::test_a_topic_that_is_created_anew_under_the_run_is_declared_without_fail_on_data_loss |
| 7 | Trigger.AvailableNow: offsets got unavailable | peer_suite/test_available_now.py::test_a_topic_that_is_created_anew_under_the_run_ends_it peer_suite/test_available_now.py::test_a_topic_that_is_created_anew_under_the_run_is_declared_without_fail_on_data_loss |
| 9 | subscribing by pattern with a topic created anew between batches | peer_suite/test_topics.py::test_a_topic_that_was_created_anew_between_two_runs_ends_the_second chaos/test_topics_come_and_go.py::test_a_topic_is_created_anew_when_all_of_it_was_read |
| 10 | subscribing by pattern with topic deletions | peer_suite/test_topics.py::test_a_topic_of_a_pattern_is_deleted_and_another_one_comes |
| 11 | SPARK-41375 empty partitions are not recorded | peer_suite/test_topics.py::test_an_empty_world_is_never_an_empty_offset spark/test_stream.py::test_a_pattern_that_first_matches_nothing_reads_the_first_topic_from_its_beginning |
| 12 | topic-level offsets tolerate a new topic | peer_suite/test_topics.py::test_a_topic_that_comes_later_may_be_left_out_of_topic_level_offsets |
| 18 | read_committed | peer_suite/test_transactions.py::test_what_is_committed_in_limited_batches |
| 19 | read_uncommitted | peer_suite/test_transactions.py::test_all_that_is_written_in_limited_batches |
| 20 | SPARK-25495 FetchedData.reset | peer_suite/test_transactions.py::test_what_comes_while_a_batch_is_read_is_not_in_it |
| 23 | custom metrics: with and without a limit, corner cases | peer_suite/test_metrics.py::test_how_far_each_partition_is_behind peer_suite/test_metrics.py::test_what_is_not_known_is_no_number peer_suite/test_metrics.py::test_lags_of_a_query |
| L | SPARK-57438 metrics do not fail | peer_suite/test_metrics.py::test_a_batch_that_is_repeated_has_progress_too |
| L | async progress tracking | peer_suite/test_queries.py::test_a_checkpoint_that_is_written_behind_the_batches |
| L | (de)serialization of initial offsets | spark/test_stream.py::test_a_restart_neither_loses_nor_repeats spark/test_crash.py::test_a_crash_before_the_first_commit_does_not_move_the_start |
| L | input row metrics | peer_suite/test_limits.py::test_spark_counts_the_rows_that_the_source_gave |
| L | initial offset with an extra byte; of Spark 2.1.0; of a future version | none: Spark keeps no file of a Python source: where a query begins is in its first offset (docs/adr/0003-state-in-the-end-offset.md) |
| L | watermark | peer_suite/test_queries.py::test_the_timestamp_is_an_event_time |
| L | delete a topic when a Spark job is running | peer_suite/test_topics.py::test_a_topic_that_is_deleted_while_a_task_is_to_read_it_does_not_end_a_query_that_declares_losses |
| L | SPARK-22956 union of two sources, one without news | peer_suite/test_limits.py::test_each_source_of_a_union_has_its_own_limit_also_when_the_other_has_nothing_new |
| L | allow group.id prefix; override | none: records are not read through a consumer group, so no broker knows of one |
| L | stream-stream self-join has one offset in the log | peer_suite/test_queries.py::test_a_stream_joined_with_itself |
| L | SPARK-27494 null keys and values | peer_suite/test_queries.py::test_keys_and_values_that_are_null spark/test_batch.py::test_every_field_is_what_an_independent_client_reads |
| L | SPARK-30656 minPartitions | peer_suite/test_queries.py::test_more_tasks_than_partitions |
| L | SPARK-56243 malformed timestamp | peer_suite/test_queries.py::test_a_timestamp_that_spark_cannot_hold_is_an_error_that_names_the_record |
| L | V1 source, V2 source is used | none: there is one kind of source |
| L | default of includeHeaders does not break a query of Spark 2.4 | spark/test_batch.py::test_the_schema_is_that_of_sparks_own_source |

M: KafkaSourceSuite, and its stress test

| | Spark's test | here |
|---|---|---|
| 8 | SPARK-53560 no crash loop when an uncommitted batch is repeated | peer_suite/test_available_now.py::test_a_batch_that_fails_fails_again_though_partitions_were_added_meanwhile |
| 13 | subscribing topics from topic-level offsets | peer_suite/test_start_positions.py::test_one_topic_from_its_beginning_and_another_from_its_end |
| 14 | assign, subscribe and pattern from specific offsets | peer_suite/test_start_positions.py::test_offsets_of_each_partition_with_words_for_the_ends_among_them peer_suite/test_start_positions.py::test_every_subscription_with_every_start |
| 15 | assign, subscribe and pattern from latest and earliest offsets | peer_suite/test_start_positions.py::test_from_the_end_on_with_partitions_that_are_added peer_suite/test_start_positions.py::test_every_subscription_with_every_start |
| 16 | assign, subscribe and pattern from specific and global timestamps | peer_suite/test_timestamps.py::test_a_time_for_each_partition peer_suite/test_start_positions.py::test_every_subscription_with_every_start |
| 17 | starting timestamps without a match | peer_suite/test_timestamps.py::test_a_partition_without_a_record_of_that_time_is_an_error_or_starts_at_its_end |
| M | (processAllAvailable, in all of them) | peer_suite/test_queries.py::test_all_that_was_there_is_read_when_process_all_available_returns |
| M | cannot stop Kafka stream | peer_suite/test_queries.py::test_a_query_that_reads_can_be_stopped |
| M | bad source options | peer_suite/test_options.py::test_bad_options peer_suite/test_options.py::test_a_stream_has_no_end |
| M | unsupported kafka configs | peer_suite/test_options.py::test_settings_of_the_client_that_are_not_the_users |
| M | get offsets from case insensitive parameters | peer_suite/test_options.py::test_words_are_understood_in_any_case_and_topics_keep_theirs peer_suite/test_options.py::test_offsets_are_understood_in_any_case_of_their_name |
| M | Kafka column types | peer_suite/test_queries.py::test_columns_and_their_types |
| M | stress test with multiple topics and partitions | peer_suite/test_topics.py::test_topics_and_partitions_come_and_go_at_random |

N: KafkaOffsetRangeCalculatorSuite, KafkaSourceOffsetSuite

| | Spark's test | here |
|---|---|---|
| 21 | minPartitions: N to N, one to N, skewed, very skewed, fewer than partitions, no multiple, empty ranges, never drop offsets | peer_suite/test_ranges.py::test_what_holds_of_tasks peer_suite/test_ranges.py::test_no_task_is_larger_than_it_may_be peer_suite/test_ranges.py::test_with_a_reader_for_each_partition_tasks_are_those_of_spark |
| 22 | SPARK-36576 no, one and two small ranges | peer_suite/test_ranges.py::test_what_holds_of_tasks peer_suite/test_ranges.py::test_with_a_reader_for_each_partition_tasks_are_those_of_spark |
| N | N to N with executors; SPARK-46798 locations | none: Spark asks no Python source where a task is to run |
| N | comparison of offsets: partitions, topics, cases, new ones | peer_suite/test_offsets.py::test_offsets_are_equal_only_to_themselves |
| N | basic serialization and deserialization | peer_suite/test_offsets.py::test_there_and_back |
| N | OffsetSeqLog serialization and deserialization | none: the log is Spark's own, whatever the source |
| N | read Spark 2.1.0 offset format | peer_suite/test_offsets.py::test_the_offsets_of_sparks_own_source_are_told_from_ours |

O: KafkaRelationSuite

| | Spark's test | here |
|---|---|---|
| 24 | preferences on offset related options | peer_suite/test_batch_reads.py::test_which_of_several_starts_and_ends_holds |
| 25 | bad batch query options; start and end of the same partitions; start behind end, specified and resolved | peer_suite/test_batch_validation.py::test_starts_and_ends_that_are_not_of_the_same_partitions peer_suite/test_batch_validation.py::test_a_start_behind_its_end peer_suite/test_batch_validation.py::test_a_start_behind_an_end_that_is_found_by_its_time peer_suite/test_batch_validation.py::test_a_batch_does_not_start_at_the_end peer_suite/test_batch_validation.py::test_a_batch_does_not_end_at_the_beginning peer_suite/test_batch_validation.py::test_offsets_name_every_partition peer_suite/test_options.py::test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start |
| 25 | explicit earliest to latest; default starting and ending offsets | peer_suite/test_batch_reads.py::test_a_dataframe_that_is_collected_again_sees_what_came_meanwhile |
| 25 | late binding start offsets | peer_suite/test_batch_reads.py::test_a_dataframe_that_is_collected_again_begins_where_the_log_does |
| O | explicit offsets | peer_suite/test_batch_reads.py::test_offsets_that_are_given_stay_what_they_are |
| O | with headers | peer_suite/test_batch_reads.py::test_headers_in_their_order_with_those_of_one_name_and_none |
| O | timestamps as start, as end, as both, with offsets, global | peer_suite/test_batch_reads.py::test_times_and_offsets_as_starts_and_ends |
| O | no matched offset for a timestamp, start and end | peer_suite/test_batch_reads.py::test_times_without_a_record |
| O | reuse the same DataFrame in a query | peer_suite/test_batch_reads.py::test_a_dataframe_twice_in_one_query |
| O | read_committed, read_uncommitted | peer_suite/test_transactions.py::test_a_batch_query_reads_what_its_isolation_lets_it_see |
| O | SPARK-30656 minPartitions | peer_suite/test_batch_reads.py::test_more_tasks_than_partitions |
| O | V1 relation, V2 relation is used | none: there is one kind of source |

P: KafkaSinkMicroBatchStreamingSuite, KafkaSinkBatchSuite

| | Spark's test | here |
|---|---|---|
| P | write to kafka, with headers, with a topic field and option, with a partition | peer_suite/test_writes.py::test_one_word_changed spark/test_write.py::test_all_columns_are_read_back spark/test_write.py::test_the_option_topic_goes_before_the_column_and_the_time_is_a_choice |
| P | null topic field value, and no topic option | spark/test_write.py::test_a_row_that_cannot_be_written_is_named |
| P | write data with bad schema, with valid schema but wrong types; with missing required options | spark/test_write.py::test_wrong_options_and_columns_are_one_error |
| P | streaming write with topic field; w/o topic field, with topic option; topic field and topic option | spark/test_write_stream.py::test_batches_and_a_restart |
| P | streaming aggregation with an output mode | spark/test_write_stream.py::test_output_modes |
| P | SPARK-20496 batch fails with incorrect schema; unsupported save modes | spark/test_write.py::test_wrong_options_and_columns_are_one_error |
| P | generic - write big data with small producer buffer | unit/kafka/test_producer_faults.py::test_each_record_once_and_in_order |
"""  # noqa: E501
