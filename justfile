# The project's habits. `bash tests/run RECIPE` runs one with every tool in place.

# Everything that continuous integration checks.
ci: check test loom python objects deploy

# Form: formatting, lints, spelling, documentation.
check:
    cargo fmt --all --check
    taplo format --check
    typos
    ruff check --quiet client/python
    ruff format --quiet --check client/python
    cd client/python && mypy --no-error-summary
    # Crates of their own workspaces have lock files of their own.
    for crate in tests/bench/parse kernels/parser/fuzz; do cargo update --workspace --locked --quiet --manifest-path $crate/Cargo.toml || exit 1; done
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# All Rust tests: units, properties, kernels for every architecture, parity, services over sockets, kill -9, import arrows.
test:
    cargo test --workspace --locked

# The same with a GPU; a missing device fails.
test-gpu:
    ACCELERD_REQUIRE_CUDA=1 cargo test --workspace --locked

# Compiles every kernel for every architecture and checks its launcher's arguments; needs no GPU.
kernels:
    cargo test --package accelerd-kernels --locked --test kernels_compile

# Model-checks the queue between callers and workers.
loom:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --package accelerd-engine --locked --lib loom

# Protocol, chart, images and scripts.
deploy:
    PYTHONPATH=tests python3 -m pytest --quiet -p summary tests/deploy

# Snapshots in S3, against a server of our own.
objects:
    cargo build --package accelerd --locked
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests:client/python/src python3 -m pytest --quiet -p summary tests/objects

# The Python client: its generated code is fresh, it talks to a daemon, and trees are CPython's.
python:
    cargo build --package accelerd --locked
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests python3 -m pytest --quiet -p summary client/python
    cargo build --package accelerd-parser --example columns --locked
    PYTHONPATH=tests python3 -m pytest --quiet -p summary tests/conformance

# all-MiniLM-L6-v2 with its real weights: vectors beside sentence-transformers', an index and searches; fetches 80 MB.
minilm:
    python3 tests/minilm/model.py "${CARGO_TARGET_DIR:-target}/models/minilm"
    cargo run --release --package accelerd-models --example compare --locked -- "${CARGO_TARGET_DIR:-target}/models/minilm"
    cargo build --release --package accelerd --package accelctl --locked
    PYTHONPATH=tests python3 -m pytest --quiet -p summary tests/minilm

# Compares the parser with CPython's over libraries, packages and mutated snippets; fetches them, and takes a while.
conformance *ARGS:
    cargo build --release --package accelerd-parser --example columns --locked
    python3 tests/conformance/encodings_check.py "${CARGO_TARGET_DIR:-target}/release/examples/columns"
    python3 tests/conformance {{ ARGS }}

# Packs the corpora of `conformance`, so that `prove` compares both backends on them; fetches them, and takes a while.
corpora *ARGS:
    python3 tests/conformance/pack.py {{ ARGS }}

# Fuzzes the parser; needs a nightly compiler and cargo-fuzz, which `tests/run` does not set up.
fuzz SECONDS="60":
    cd kernels/parser && cargo +nightly fuzz run parse -- -max_total_time={{ SECONDS }}

# Starts the daemon, indexes Python's standard library and searches it.
quickstart:
    bash deploy/quickstart

# Rewrites the image of the protocol that `deploy` compares with; only at a release.
proto-release:
    cd proto && buf build --output accelerd.binpb

# Builds what a CUDA machine without Rust needs into dist/.
dist:
    bash tests/dist

# Parity, faults and benchmarks on this machine, from dist/.
prove:
    bash dist/prove
