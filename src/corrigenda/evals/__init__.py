"""The evaluation harness: data sets, judge, records, metrics, reports."""
