"""Measurements that `corrigenda bench` runs: each prints ratios from one run, with how they were reached."""
