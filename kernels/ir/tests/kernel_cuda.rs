//! Emitted device code computes what the interpreter computes, bit for bit. It is compiled for the host.

mod common {
    pub(crate) mod cuda;
    mod exact;
    pub(crate) mod random;

    mod builder;
    pub(crate) use builder::*;
    pub(crate) use exact::exact;

    /// Iterations of a thread.
    pub(crate) const LOOP_BUDGET: u64 = 300;
}

use common::{
    exact,
    cuda::{Case, assert_agree},
    random,
};

/// One thread runs the grid: random kernels show the order of threads.
fn random_case(seed: u64) -> Case {
    let random::Subject { kernel, grid, arguments } = random::kernel(seed);
    Case { kernel: exact(kernel), grid, arguments, shape: [1, 1] }
}

#[test]
fn random_kernels_compute_what_the_interpreter_does() {
    assert_agree("random", (0..200).map(random_case).collect());
}
