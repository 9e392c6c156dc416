"""`corrigenda batch`: a report for every row of a file, resumable at any moment, on one machine or on many.

| module | what |
|---|---|
| `rows.py` | what goes in (`Row`), what comes out (`Done`), what it cost (`Spent`) |
| `inputs.py`, `reading.py`, `checking.py` | rows, read a block at a time; the first pass, which checks them all |
| `worker.py` | one set of models that makes reports of rows |
| `engine.py`, `local.py` | how rows are spread over workers; the engine in this process |
| `engine_ray.py`, `ray_cluster.py`, `ray_rows.py` | the engine on Ray: driver, cluster, what runs there |
| `state.py`, `manifest.py` | what is done, in one SQLite file beside the output, and what run it is of |
| `budget.py` | when no new row is begun |
| `output.py`, `summary.py` | the output in the input's order, and what the run says as a whole |
| `command.py`, `going.py` | the command line; one run from its beginning to its end |
"""
