//! The files of a translation.

use accelerd_ir::kernel::cuda::Example;
use accelerd_ir::kernel::{Kernel, cuda, wasm};

use crate::Targets;
use crate::example::{Budget, NoExample, example};

/// A file of a translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// The files of a kernel, and the example of its program in CUDA C++ if one is requested.
pub(crate) fn emit(
    kernel: &Kernel,
    targets: Targets,
    budget: &mut Budget,
) -> (Vec<File>, Result<Option<Example>, NoExample>) {
    let mut files = vec![];
    let mut of_program = Ok(None);
    if targets.cuda {
        of_program = example(kernel, budget).and_then(|example| {
            files.extend(program(cuda::standalone(kernel, &example)?));
            Ok(Some(example))
        });
    }
    if targets.wasm {
        let content = wasm::emit(kernel).expect("lowered kernels are well formed");
        files.push(File { name: format!("{}.wasm", kernel.name), content });
    }
    (files, of_program)
}

fn program(files: cuda::Files) -> [File; 3] {
    let cuda::Files { name, source, makefile, metadata } = files;
    [(format!("{name}.cu"), source), ("Makefile".to_owned(), makefile), ("metadata.json".to_owned(), metadata)]
        .map(|(name, content)| File { name, content: content.into_bytes() })
}
