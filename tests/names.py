"""Finds names that the code base replaced by standard terms, and says why those that are left stay.

    python3 tests/names.py [--all]    --all also lists the kept ones

Each entry has a pattern of whole identifiers (or parts between underscores, with `part`), the standard term, and the folders in
which the pattern has the replaced meaning. Exits with 1 if a name is left without a reason.
"""

import pathlib
import re
import subprocess
import sys
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".rs", ".cu", ".cuh", ".proto", ".py", ".toml", ".yaml", ".json", ".sh", ".md", ".c")
CUDA_LAYER, OPS, KERNELS, ENCODE = "kernels/src/cuda/*", "kernels/src/*", "kernels/cu/*", "kernels/src/ops/encode/*"
SIMILARITY, CLUSTER, CPU = "kernels/src/ops/similarity/*", "kernels/src/ops/cluster/*", "kernels/src/cpu/*"
PARSE, PARSER = "kernels/src/ops/parse/*", "kernels/parser/*"
ENGINE, COLLECTIONS, SERVER, CLIENT = "server/engine/*", "server/collections/*", "server/*", "client/*"
EVERYWHERE = "*"

# (folders, pattern of identifiers, standard term)
REPLACED = [
    # engine
    (SERVER, "Desk", "DeviceQueues"),
    (SERVER, "Station", "DeviceLane"),
    (ENGINE, "Bench", "WorkerContext"),
    (SERVER, "Tidying|Broom", "TrimSignal"),
    (ENGINE, "tidy|tidying", "trim"),
    (ENGINE, "Standing|Wish", "DeviceLoad, Placement"),
    (EVERYWHERE, "home", "affinity"),
    (ENGINE, "Turn", "PollOutcome"),
    (ENGINE, "Shares|Pace|Bounds", "FairShare, BatchTiming, BatchLimits"),
    (ENGINE, "GivenBack|abandon", "Rerouted, evict"),
    (EVERYWHERE, "long_above|LongPlace", "large_request_bytes, LargeRequestPermit"),
    (EVERYWHERE, "cpu_below", "cpu_max_bytes"),
    # CUDA layer
    (OPS, "beside|Beside", "copy_stream"),
    (OPS, "Landing|Landed", "PendingDownload, HostBuffer"),
    (OPS, "Parcel|Place", "UploadPlan, Region"),
    (CUDA_LAYER, "Order|Mark|Busy|On", "DownloadPlan, Event, InFlight, StreamKind"),
    (OPS, "twin", "second_stream"),
    (OPS, "copiers|Copiers|mailbox|Mailbox", "memcpy_pool, async_readback"),
    (OPS, "Residents|Mirror|Shelf", "DeviceCache, DeviceCopy, TensorPool"),
    (OPS, "Start", "programmatic_launch"),
    (EVERYWHERE, "wait_for_launches", "griddepcontrol_wait"),
    (EVERYWHERE, "give_back", "trim"),
    (EVERYWHERE, "LeftStats|left_stats|accelerd_left_\\w*", "FallbackStats, accelerd_cpu_fallback_*"),
    # kernels
    (EVERYWHERE, "encode_join\\w*|Joiner", "linear_residual_norm"),
    (EVERYWHERE, "encode_relay\\w*", "gemm_pingpong"),
    (KERNELS, "Shift", "gemm_pingpong"),
    (EVERYWHERE, "encode_few\\w*", "gemm_skinny"),
    (KERNELS, "Few", "gemm_skinny"),
    (EVERYWHERE, "attend_group|attend_wide|encode_attend\\w*", "attention_sm90_*, attention_mma"),
    (KERNELS, "\\w+_(wide|broad|even|middle|small)", "tile_128x256 and so on"),
    (OPS, "WIDE|BROAD|EVEN|MIDDLE|SMALL", "TILE_128X256 and so on"),
    (EVERYWHERE, "HALVES|Halves", "bf16/f16, Pack16"),
    (EVERYWHERE, "turn_row|encode_heads\\w*", "qk_norm_rope"),
    (KERNELS, "Turns", "qk_norm_rope"),
    (KERNELS, "Turn", "PipelineState"),
    (KERNELS, "fill|bring|multiply|emit|give", "producer, consumer, epilogue"),
    (KERNELS, "(begin|commit|wait)_products", "wgmma_fence, wgmma_commit, wgmma_wait"),
    (KERNELS, "barrier_begin|barriers_begun|show_copies", "mbarrier_init, fence_mbarrier_init, fence_proxy_async"),
    (KERNELS, "copy_bulk\\w*|store_bulk|matrix_at", "bulk_load, bulk_store, smem_descriptor"),
    (KERNELS, "(shrink|grow)_registers|draw_near|pin", "setmaxnreg_dec/inc, prefetch_l1, fence_accumulators"),
    (KERNELS, "steps|apart|backwards", "k_tiles, stride, reverse"),
    (KERNELS, "piece|how", "chunk, params"),
    (KERNELS, "Room|room", "SmemLayout"),
    (ENCODE, "Room|room", "ShapeBucket"),
    (KERNELS, "Held|share_out|raise", "row_max, row_sum, softmax, rescale"),
    (KERNELS, "rate|reads", "attention_bias, is_visible"),
    (KERNELS + " " + ENCODE, "starts|texts", "cu_seqlens, sequences"),
    (KERNELS, "block_before|join_before", "block_exclusive_scan"),
    # encoder
    (ENCODE, "states|think|widen", "hidden_states, mlp, mlp_up"),
    (ENCODE, "Then|Answers|Reduce", "Epilogue, PooledOutput, Pooling"),
    (ENCODE, "types|kinds", "token_type_embeddings"),
    (KERNELS, "\\w+_exact", "_simt"),
    # CPU
    (CPU, "products|Far|Unit|few", "gemm, Prefetch, AmxToken, gemv"),
    (OPS, "is_held", "is_reserved"),
    # search
    (SIMILARITY, "Way|Ask|Wish", "SearchPlan, QuerySpec, SearchParams"),
    (SIMILARITY + " kernels/cu/search/*", "floor|lows|uppers|peaks", "pruning_threshold, lower_bounds, upper_bounds, tile_max"),
    (SIMILARITY + " kernels/cu/search/*", "Caught|Net|narrow", "CandidateBuffer, compact, refine"),
    (SIMILARITY + " " + SERVER, "kill|dead|deaths", "delete, deleted"),
    (CLUSTER + " kernels/cu/kmeans/*", "frame|place", "centered, reseed_empty"),
    # text search
    (COLLECTIONS, "Words|words", "TextIndex"),
    (EVERYWHERE, "WORDS_FAILED", "TEXT_INDEX_FAILED"),
    (COLLECTIONS, "Tail|Question|Asked|Times|Lengths|forget", "WriteBuffer, TextQuery, QueryTerm, Posting, DocStats, remove"),
    (EVERYWHERE, "word_weight|word-weight", "text_weight"),
    # models
    (SERVER + " kernels/models/*", "Cut|Cutter|CutError", "TokenizeOptions, TokenizerPool, TokenizeError"),
    (SERVER, "Keep|Long|Parting", "TruncationSide and so on"),
    # CPU code of tensors
    ("kernels/src/ops/tensor/cpu/* kernels/src/ops/compare/*", "Scratch|Job", "PackedBuffers, Convolution and so on: what it holds or computes"),
    # parser
    (PARSER, "reasons", "error_messages"),
    ("kernels/grammar/*", "notation", "grammar_parser"),
    (PARSE, "Leave|anew|crew|foreseen|areas|tree_cut|hole", "fallback, work queue, prefilter, arenas, split, placeholder"),
    # server
    (SERVER, "Front|Ends|Served|Mistakes|keep_house", "Acceptor, ShutdownTokens, LoadedModel, ConfigErrors, maintain"),
    # client, tests
    (CLIENT, "Screen|Page|Paint|human|repeatable", "Output, Renderer, Style, format, idempotent"),
    (EVERYWHERE, "World", "TestServer"),
    (EVERYWHERE, "peers_\\w+|\\w+_bars|soup", "baseline_*, *_bench, token_fuzz"),
]

# (pattern of names, pattern of paths, why the name stays)
KEPT = [
    ("*", "tests/names.py", "this list"),
    ("home", "kernels/models/builtin/pairs.py", "pathlib's Path.home"),
    ("starts", "kernels/cu/parse/*", "start offsets of tokens, lines and nodes, not of sequences"),
    ("texts", "kernels/cu/parse/*", "texts of tokens"),
    ("emit", "kernels/cu/parse/*", "a compiler emits nodes"),
    ("give", "kernels/cu/kmeans/init.cu", "the value that a lane gives to the other in a shuffle"),
    ("steps", "kernels/cu/kmeans/assign.cu", "tiles times slabs of a software pipeline, not k tiles"),
    ("kmeans_assign_exact", "kernels/cu/kmeans/*", "exact in f64, not a SIMT variant"),
    ("rows_are_exact", "kernels/cu/search/*", "whether the stored copy of a row is exact"),
    ("kill", "server/tests/*", "kills a process"),
    ("kill", "server/sandbox/*", "kills a process"),
    ("Place", "kernels/*", "the host or a GPU, whose memory the ledger counts"),
    ("words", "server/collections/*", "64-bit words of a bitmap, or words of a text"),
]


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if name.endswith(CODE) or "/" not in name or "." not in name.rsplit("/", 1)[-1]:
            try:
                yield name, (ROOT / name).read_text()
            except (UnicodeDecodeError, IsADirectoryError):
                continue


def code(name, text):
    """The text without comments and string literals, which hold ordinary English; line numbers stay."""
    if name.endswith(".md"):
        return "\n".join(" ".join(re.findall(r"`([^`]*)`", line)) for line in text.splitlines())
    if name.endswith((".rs", ".cu", ".cuh", ".proto", ".c")):
        text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
        return re.sub(r"//.*", "", text)
    return re.sub(r"#.*", "", text)


def main():
    everything = "--all" in sys.argv[1:]
    sources = [(name, code(name, text).splitlines()) for name, text in files()]
    left = 0
    for folders, pattern, term in REPLACED:
        word = re.compile(rf"(?<![\w$]){'(?:' + pattern + ')'}(?!\w)")
        for name, lines in sources:
            if not any(fnmatch(name, folder) for folder in folders.split()):
                continue
            hits = [(number, found.group()) for number, line in enumerate(lines, 1) for found in word.finditer(line)]
            for kept in sorted({found for _, found in hits}):
                reason = next((why for names, paths, why in KEPT if fnmatch(kept, names) and fnmatch(name, paths)), None)
                at = ", ".join(str(number) for number, found in hits if found == kept)
                if reason is None:
                    left += 1
                    print(f"{name}:{at}: {kept}; the standard term is {term}")
                elif everything:
                    print(f"{name}:{at}: {kept} stays: {reason}")
    print(f"{left} names left without a reason")
    return left > 0


if __name__ == "__main__":
    sys.exit(main())
