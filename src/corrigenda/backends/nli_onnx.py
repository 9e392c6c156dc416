"""`onnx:DIR-OR-ID`: an NLI model in ONNX form, run in process by onnxruntime. Needs no torch.

The directory (or hub repository) must have `config.json` with named labels, `tokenizer.json`, and the graph:
the first of `model.onnx`, `onnx/model.onnx`, `model_quantized.onnx`, `onnx/model_quantized.onnx` that is there.
Full precision goes first because it is what published accuracies were measured with. `onnx:DIR-OR-ID@int8` asks for a
graph of 8-bit integers (`int8_graphs` says under which names), which is smaller and faster and gives other scores: it
is another verifier, with another name in reports, and policies and caches are not shared with the first one.
"""

from __future__ import annotations

import mmap
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corrigenda.backends.cores import usable_cores
from corrigenda.backends.nli_batched import BatchedEntailer, BatchLimits, Encoded, encodable
from corrigenda.backends.nli_files import import_libraries, int8_of, locate, max_length, read_json
from corrigenda.errors import ConfigError, ModelError
from corrigenda.nli import Labels, label_order

GRAPHS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
"""Where the graph is looked for, in this order."""

_VNNI = ("avx512_vnni", "avx_vnni")
"""Processor flags of the instructions that add products of 8-bit integers without overflow."""

_FED = ("input_ids", "attention_mask", "token_type_ids")
_TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


class OnnxEntailer(BatchedEntailer):
    """An Entailer on onnxruntime's CPU provider."""

    def __init__(
        self,
        model: str | Path,
        *,
        file: str | None = None,
        labels: Labels | None = None,
        batch_size: int | None = None,
        batch_tokens: int = 384,
        threads: int | None = None,
        batch_threads: int | None = None,
        cache_dir: str | Path | None = None,
        offline: bool = False,
        revision: str | None = None,
    ) -> None:
        """Load the model, from a directory or a hub id, with `@int8` behind it for a graph of 8-bit integers.

        `file`: the graph's path inside it, in place of `@int8`. `labels`: see `corrigenda.nli.label_order`; only
        for models whose configuration doesn't name them. `batch_size`: pairs per batch, at most; by default 32, and 1
        for graphs that quantise activations on the fly, because there a pair's result depends on its company.
        `batch_tokens`: tokens per batch with padding. `threads`: how many cores to use, by default all that this
        process may; as many batches run side by side. `batch_threads`: how many of them one batch may use, by default
        all that the others leave idle, so that few pairs are fast too; 1 takes less processor time in all (a tenth
        less, measured on two cores) and is for callers that always have many pairs. `offline`: use only what is cached.

        Raises MissingExtra, ConfigError (settings, labels, inputs that can't be fed) and ModelError (missing or
        damaged files, hub unreachable).
        """
        ort, np, tokenizers = import_libraries("the verifier `onnx:`", "onnx", "onnxruntime", "numpy", "tokenizers")
        ort.disable_telemetry_events()
        self._np = np
        folder_or_id, int8 = int8_of(model)
        if int8 and file is not None:
            raise ConfigError(f"file={file!r} and @int8 both say which graph of {str(model)!r} is meant; leave one out")
        graphs = (file,) if file is not None else int8_graphs() if int8 else GRAPHS
        folder = locate(
            folder_or_id,
            lambda names: [*_graph_files(names, graphs), *_side_files(names)],
            extra="onnx",
            offline=offline,
            revision=revision,
            cache_dir=cache_dir,
        )
        config = read_json(folder / "config.json")
        details = read_json(folder / "tokenizer_config.json", required=False)
        order = label_order(config.get("id2label"), labels)
        self._tokenizer = _tokenizer(tokenizers, folder / "tokenizer.json")
        graph = folder / _graph_files(_present(folder, graphs), graphs)[0]
        if batch_size is None:
            batch_size = 1 if _quantises_activations(graph) else 32
        threads = usable_cores() if threads is None else threads
        self._session: Any = _session(ort, graph, threads if batch_threads is None else batch_threads)
        self.warnings: tuple[str, ...] = ()
        """What users of this verifier should know."""
        if graphs is GRAPHS and graph.stem.endswith("quantized"):
            self.warnings = (
                f"the verifier {str(model)!r} has no graph of full precision; {graph.name} is used, whose scores "
                f"differ from it (onnx:{model}@int8 says that this is meant)",
            )
        self._inputs = _inputs(self._session, graph)
        self._pad_id = _pad_id(config, self._tokenizer)
        super().__init__(
            name=f"onnx:{model}",
            max_length=max_length(config, details.get("model_max_length")),
            special_tokens=self._tokenizer.num_special_tokens_to_add(is_pair=True),
            order=order,
            limits=BatchLimits(
                pairs=batch_size,
                tokens=batch_tokens,
                at_once=threads,
                equal_only="attention_mask" not in self._inputs,
            ),
        )

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, special tokens left out."""
        return len(self._tokenizer.encode(encodable(text), add_special_tokens=False).ids)

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """See BatchedEntailer. The pair is built by the template in `tokenizer.json`."""
        return [Encoded(ids=item.ids, type_ids=item.type_ids) for item in self._tokenizer.encode_batch(list(pairs))]

    def _logits(self, batch: Sequence[Encoded]) -> list[list[float]]:
        """Run one batch: int arrays of shape (pairs, longest) in, logits of shape (pairs, 3) out."""
        np = self._np
        shape = (len(batch), max(len(item.ids) for item in batch))
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        for row, item in enumerate(batch):
            ids[row, : len(item.ids)] = item.ids
            mask[row, : len(item.ids)] = 1
            types[row, : len(item.ids)] = item.type_ids
        arrays = dict(zip(_FED, (ids, mask, types), strict=True))
        feed = {name: arrays[name].astype(dtype, copy=False) for name, dtype in self._inputs.items()}
        (logits,) = self._session.run([_output(self._session)], feed)
        rows: list[list[float]] = logits.astype(np.float64).reshape(len(batch), -1).tolist()
        return rows

    def _release(self) -> None:
        """Drop the session, which holds the weights."""
        self._session = None


def int8_graphs(machine: str | None = None, flags: str | None = None) -> tuple[str, ...]:
    """Return the names under which a graph of 8-bit integers is looked for, the best for this processor first.

    Published files are made for a kind of processor, and one made for VNNI instructions overflows without them: it is
    only taken where they are. `machine` and `flags` (as in /proc/cpuinfo) are this machine's own when None.
    """
    machine = platform.machine().lower() if machine is None else machine
    any_kind = ("model_quantized", "model_int8", "model_uint8")
    names: tuple[str, ...]
    if machine in ("arm64", "aarch64"):
        names = ("model_qint8_arm64", *any_kind)
    elif any(flag in (_cpu_flags() if flags is None else flags).split() for flag in _VNNI):
        names = ("model_qint8_avx512_vnni", *any_kind, "model_quint8_avx2")
    else:
        names = ("model_quint8_avx2", *any_kind)
    return tuple(f"{folder}{name}.onnx" for name in names for folder in ("", "onnx/"))


def _cpu_flags() -> str:
    """Return this processor's flags; nothing where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")


def _graph_files(names: Sequence[str], graphs: Sequence[str]) -> list[str]:
    """Return the graph's name and those of the files with its weights, where they stand apart. Raises ModelError."""
    graph = next((name for name in graphs if name in names), None)
    if graph is None:
        remedy = "export the model to ONNX (optimum-cli export onnx --task text-classification) or say which file with "
        remedy += "file="
        if "model_quantized.onnx" in graphs and "model.onnx" not in graphs:
            remedy = "make one (optimum-cli onnxruntime quantize), or leave out @int8"
        raise ModelError(f"there is no {' or '.join(graphs)}; {remedy}")
    return [graph, *(name for name in (f"{graph}_data", f"{graph}.data") if name in names)]


def _side_files(names: Sequence[str]) -> list[str]:
    """Return the configuration and tokenizer files. Raises ModelError where one is missing."""
    for name, remedy in (
        ("config.json", "it names the labels; fetch the whole model"),
        (
            "tokenizer.json",
            "a fast tokenizer is needed: AutoTokenizer.from_pretrained(ID).save_pretrained(DIR) makes it",
        ),
    ):
        if name not in names:
            raise ModelError(f"there is no {name}; {remedy}")
    return [name for name in ("config.json", "tokenizer.json", "tokenizer_config.json") if name in names]


def _present(folder: Path, graphs: Sequence[str]) -> list[str]:
    """Return which of the graph's possible names exist in a directory."""
    return [name for name in graphs if (folder / name).is_file()]


def _tokenizer(tokenizers: Any, path: Path) -> Any:
    """Load `tokenizer.json` without truncation and padding. Raises ModelError, or ConfigError for no pairs."""
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{str(path)!r} is no tokenizer: {error}; fetch the model again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if tokenizer.num_special_tokens_to_add(is_pair=True) == 0:
        raise ConfigError(
            f"{str(path)!r} puts nothing between premise and hypothesis (it has no post-processor for pairs), so that "
            "the model could not tell them apart; use the tokenizer of the NLI model itself"
        )
    return tokenizer


def _quantises_activations(graph: Path) -> bool:
    """Return whether the graph scales activations by what is in the batch (operators DynamicQuantize…)."""
    if graph.stat().st_size == 0:
        return False
    with graph.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"DynamicQuantize") >= 0


def _session(ort: Any, graph: Path, threads: int) -> Any:
    """Load the graph. Raises ConfigError for a bad thread count and ModelError for a damaged file.

    The operators of all batches in work share one pool of `threads`: a batch uses the cores that the others leave
    idle while they are in an operator that only one core can do. With one thread there is no pool, and each batch stays
    in the thread that it was given to.
    """
    if threads < 1:
        raise ConfigError(f"threads must be at least 1, got {threads!r}")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4  # what matters comes back as an exception
    # Threads that spin while they wait take the cores from the other batches, and from a chat model beside them.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each cause
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(
            f"{str(graph)!r} cannot be loaded: {lines[0]}; it is damaged or made for another runtime: fetch it again "
            "or export it again"
        ) from error


def _inputs(session: Any, graph: Path) -> Mapping[str, str]:
    """Return the type of each input that the graph declares. Raises ConfigError where one can't be fed."""
    declared = {item.name: item for item in session.get_inputs()}
    odd = [name for name, item in declared.items() if name not in _FED or item.type not in _TYPES]
    fixed = [name for name, item in declared.items() if any(isinstance(size, int) for size in item.shape)]
    if odd or "input_ids" not in declared:
        shown = {name: item.type for name, item in declared.items()}
        raise ConfigError(
            f"{str(graph)!r} has the inputs {shown!r}, but only {_FED!r} (integers) can be fed; export again"
        )
    if fixed:
        raise ConfigError(
            f"{str(graph)!r} was exported with a fixed shape ({fixed[0]!r}: {declared[fixed[0]].shape!r}); export it "
            "again with dynamic axes for batch and sequence"
        )
    return {name: _TYPES[item.type] for name, item in declared.items()}


def _output(session: Any) -> str:
    """Return the name of the output to read: `logits`, else the first."""
    names = [item.name for item in session.get_outputs()]
    return "logits" if "logits" in names else str(names[0])


def _pad_id(config: Mapping[str, Any], tokenizer: Any) -> int:
    """Return the model's padding token. It matters where positions are derived from it; else it is masked."""
    known = config.get("pad_token_id")
    if isinstance(known, int):
        return known
    named = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((int(found) for found in named if found is not None), 0)
