"""Run `corrigenda bench nli` from a checkout: `python benchmarks/nli.py`. The code is in `corrigenda.bench.nli`."""

from corrigenda.bench.nli import main

if __name__ == "__main__":
    raise SystemExit(main())
