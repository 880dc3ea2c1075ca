//! The operations, one folder each: types, checks, cost, CPU code, CUDA launch, oracle.

pub mod cluster;
pub mod compare;
pub mod embed;
pub mod encode;
pub mod parse;
pub mod similarity;
pub mod tensor;
pub mod translate;

use crate::cuda::Module;

/// The CUDA modules of all operations.
pub fn modules() -> Vec<&'static Module> {
    [
        cluster::cuda::MODULES,
        compare::cuda::MODULES,
        embed::cuda::MODULES,
        &encode::cuda::modules(),
        parse::cuda::MODULES,
        similarity::cuda::MODULES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use crate::cuda::hidden_by_macros;

    #[test]
    fn no_source_hides_a_generated_constant() {
        for module in super::modules() {
            let sources = [module.headers, &[module.source]].concat();
            assert!(hidden_by_macros(&sources).is_empty(), "{}: {:?}", module.name, hidden_by_macros(&sources));
        }
    }
}
