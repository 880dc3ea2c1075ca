# Recipes of the project. `bash tests/run RECIPE` installs the tools and runs one.

# Runs everything that continuous integration checks.
ci: check test loom python golden translations objects http oip browser monitoring fleet deploy

# Checks formatting, lints, spelling, retired names, documentation, and the licences and sources of dependencies.
check:
    cargo fmt --all --check
    taplo format --check
    typos
    python3 tests/names.py
    ruff check --quiet client/python
    ruff format --quiet --check client/python
    cd client/python && mypy --no-error-summary
    # Checks the lock files of the crates outside of the workspace.
    for crate in tests/bench/parse tests/libfuzzer kernels/parser/fuzz; do cargo update --workspace --locked --quiet --manifest-path $crate/Cargo.toml || exit 1; done
    cargo fetch --locked --quiet
    cargo deny --offline --log-level error check bans licenses sources
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# Lists what takes longest to build, and runs all Rust tests, with kernels for every architecture. `check` compiles the examples.
test:
    cargo test --workspace --lib --bins --tests --locked --no-run --timings
    python3 tests/build_times.py "${CARGO_TARGET_DIR:-target}/cargo-timings/cargo-timing.html"
    cargo test --workspace --lib --bins --tests --locked
    cargo test --workspace --doc --locked

# Runs the same tests with a GPU, and those that need one; a missing device fails.
test-gpu:
    ACCELERD_REQUIRE_CUDA=1 cargo test --workspace --locked
    ACCELERD_REQUIRE_CUDA=1 cargo test --package accelerd-tests --locked --test service -- --ignored --skip data_parallel

# Compiles every kernel for every architecture as a daemon does, which takes ten minutes; needs no GPU. `test` does it with less optimisation.
kernels:
    cargo run --package accelerd-kernels --example compile_kernels --locked -- "${CARGO_TARGET_DIR:-target}/kernels"

# Model-checks the queue between callers and workers, and the allowances of the ledger.
loom:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --package accelerd-engine --package accelerd-ledger --locked --lib loom

# Checks protocol, chart, images, scripts and the links of documents. The tests of a file share folders, so one process runs them.
deploy: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests python3 -m pytest --quiet -p summary --numprocesses auto --dist loadfile tests/deploy

# Builds the daemon, the command line and the example of the parser, with the features that they have in `test`, which has built them.
build:
    cargo build --workspace --bin accelerd --bin accelctl --example columns --locked

# Tests snapshots in S3 against a local server.
objects: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests:client/python/src python3 -m pytest --quiet -p summary tests/objects

# Tests the clients of OpenAI, Cohere, Jina and TEI for Python and Node against the HTTP port; downloads them.
http: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" bash tests/http/run

# Tests tritonclient against the Open Inference Protocol over HTTP and gRPC; downloads it.
oip: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" bash tests/oip/run

# Tests dashboards and alerts with Prometheus, from Debian's package, against the metrics of a daemon after a small load.
monitoring: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" bash tests/monitoring/run

# Tests three daemons behind Envoy, one of which ends; downloads it.
fleet: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" bash tests/fleet/run

# Tests the Python client: generated code is up to date, calls to a daemon, trees equal to CPython's.
python: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests python3 -m pytest --quiet -p summary --numprocesses auto client/python
    PYTHONPATH=tests python3 -m pytest --quiet -p summary --numprocesses auto tests/conformance

# Makes the same calls with the clients of all languages, and compares their answers; installs what the languages need.
golden: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests:client/python/src:client/python/tests python3 -m pytest --quiet -p summary tests/golden

# Verifies translations of Python functions to Rust and WebAssembly, and finds the planted errors.
translations: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" PYTHONPATH=tests:client/python/src python3 -m pytest --quiet -p summary --numprocesses auto tests/translations

# Tests all-MiniLM-L6-v2 with its real weights: vectors against sentence-transformers', an index, searches; downloads 80 MB.
minilm:
    python3 tests/minilm/model.py "${CARGO_TARGET_DIR:-target}/models/minilm"
    cargo run --release --package accelerd-models --example compare --locked -- "${CARGO_TARGET_DIR:-target}/models/minilm"
    cargo build --release --package accelerd --package accelctl --locked
    PYTHONPATH=tests python3 -m pytest --quiet -p summary tests/minilm

# Checks that the committed console is up to date, drives it in Chromium, and has pages of other sites call a daemon; downloads Chromium.
browser: build
    ACCELERD_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/accelerd" bash tests/browser/run

# Compares the parser with CPython's over libraries, packages and mutated snippets; downloads them; slow.
conformance *ARGS:
    cargo build --release --package accelerd-parser --example columns --locked
    python3 tests/conformance/encodings_check.py "${CARGO_TARGET_DIR:-target}/release/examples/columns"
    python3 tests/conformance {{ ARGS }}

# Packs the corpora of `conformance` for `verify-gpu`, which compares both backends on them; downloads them; slow.
corpora *ARGS:
    python3 tests/conformance/pack.py {{ ARGS }}

# Fuzzes with libFuzzer for some seconds each: parse, bodies, calls, cases, model_folders, npy, safetensors, snapshots, or all of them.
fuzz GROUP="all" SECONDS="60":
    bash tests/libfuzzer/run {{ GROUP }} {{ SECONDS }}

# Starts the daemon, indexes Python's standard library and searches it.
quickstart:
    bash deploy/quickstart

# Checks all lock files against the advisories of RustSec; downloads them from GitHub.
advisories:
    for crate in . tests/bench/parse tests/libfuzzer kernels/parser/fuzz; do cargo deny --locked --manifest-path $crate/Cargo.toml --config deny.toml check advisories || exit 1; done

# Writes THIRD-PARTY-NOTICES, the licences of all crates in the binaries; builds cargo-about, which has no package for `tests/run`.
notices:
    cargo install --quiet --locked --root "${CARGO_TARGET_DIR:-target}/about" --features cli cargo-about@0.9.3
    "${CARGO_TARGET_DIR:-target}/about/bin/cargo-about" generate --locked --fail --output-file THIRD-PARTY-NOTICES deploy/notices.hbs

# Writes the image of the protocol that `deploy` compares with; for releases only.
proto-release:
    cd proto && buf build --output accelerd.binpb

# Makes dist/release: tarball, wheels, Debian package, notices, SBOM and checksums; builds tools that have no packages; slow.
release *ARGS:
    bash deploy/packages/release {{ ARGS }}

# Builds dist/ for a CUDA machine without Rust.
dist:
    bash tests/dist

# Runs parity, sanitizers, a soak and benchmarks on this machine, from dist/.
verify-gpu:
    bash dist/verify-gpu
