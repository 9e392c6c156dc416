"""Run `corrigenda bench latency` from a checkout: `python benchmarks/latency.py`; see `corrigenda.bench.latency`."""

from corrigenda.bench.latency import main

if __name__ == "__main__":
    raise SystemExit(main())
