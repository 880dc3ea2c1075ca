//! Compiles every kernel for every supported architecture with hardly any optimisation, and compares its parameters with the host's
//! declarations. A few kernels are compiled as a daemon does; `just kernels` compiles all of them so.
//!
//! Needs NVRTC, but no GPU: set `ACCELERD_NVRTC_PATH` to the folder of `libnvrtc.so`, or install the CUDA toolkit.

use std::{collections::BTreeMap, env, path::PathBuf};

use accelerd_kernels::{
    LoadProgress, Settings,
    cpu::Pool,
    cuda::{self, Arch, KernelFolder},
    ops::modules,
};
use rayon::prelude::*;

/// The architecture for which kernels are compiled as a daemon does.
const OPTIMISED: Arch = Arch::new(9, 0);

/// Modules that are compiled as a daemon does.
const OPTIMISED_MODULES: [&str; 3] = ["embedding_norm", "residual_norm", "pool"];

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("ACCELERD_NVRTC_PATH").expect(
        "ACCELERD_NVRTC_PATH must name the folder of libnvrtc: `pip install nvidia-cuda-nvrtc==13.0.*`, then \
         site-packages/nvidia/cu13/lib",
    );
    vec![path.into()]
}

#[test]
fn kernels_compile_as_in_a_daemon_and_are_cached() {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let modules: Vec<_> = modules().into_iter().filter(|module| OPTIMISED_MODULES.contains(&module.name)).collect();
    let compile = || {
        let progress = LoadProgress::default();
        let built =
            cuda::compile_kernels(&modules, &[OPTIMISED], KernelFolder::Cache, cache.path(), &folders(), &progress)
                .unwrap_or_else(|e| panic!("{e}"));
        let compiled = built.iter().filter(|one| !one.cached).count();
        let expected = [built.len(), built.len(), compiled].map(|count| count as u64);
        assert_eq!([progress.total(), progress.loaded(), progress.compiled()], expected);
        built
    };
    let built = compile();
    assert_eq!(built.len(), OPTIMISED_MODULES.len());
    assert!(built.iter().all(|one| one.bytes > 0 && !one.cached), "{built:?}");

    let entries = || std::fs::read_dir(cache.path()).expect("the cache").map(|file| file.expect("a file").path());
    assert_eq!(entries().count(), built.len());
    let damaged = entries().next().expect("an entry");
    let mut bytes = std::fs::read(&damaged).expect("an entry");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, &bytes).expect("written");

    let again = compile();
    assert_eq!(again.iter().filter(|one| !one.cached).count(), 1, "the damaged entry is recompiled");
    assert_ne!(std::fs::read(&damaged).expect("an entry"), bytes);
}

#[test]
fn every_kernel_compiles_for_every_architecture_with_the_declared_parameters() {
    let modules = modules();
    let folders = folders();
    let pairs: Vec<_> =
        Arch::SUPPORTED.iter().flat_map(|arch| modules.iter().map(move |module| (*arch, module))).collect();
    let faults: Vec<_> = pairs
        .par_iter()
        .filter_map(|(arch, module)| {
            let declared: BTreeMap<_, _> =
                module.kernels.iter().map(|kernel| (kernel.name.to_owned(), kernel.params.to_vec())).collect();
            match cuda::compile_quickly(module, *arch, &folders) {
                Ok(ptx) if parameters(&ptx) == declared => None,
                Ok(ptx) => Some(format!("{} for {arch}: {:?}, expected {declared:?}", module.name, parameters(&ptx))),
                Err(log) => Some(format!("{} for {arch}: {log}", module.name)),
            }
        })
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn module_and_kernel_names_are_unique() {
    let mut modules_named: Vec<_> = modules().iter().map(|module| module.name).collect();
    let mut kernels: Vec<_> = modules().iter().flat_map(|module| module.kernels).map(|kernel| kernel.name).collect();
    for names in [&mut modules_named, &mut kernels] {
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}

#[test]
fn kernels_of_an_installation_serve_every_version_of_the_compiler() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let modules: Vec<_> = modules().into_iter().filter(|module| module.name == OPTIMISED_MODULES[2]).collect();
    let compile = |kind| {
        let progress = LoadProgress::default();
        let built = cuda::compile_kernels(&modules, &[OPTIMISED], kind, folder.path(), &folders(), &progress);
        built.unwrap_or_else(|e| panic!("{e}"))[0].cached
    };
    assert!(!compile(KernelFolder::Cache));
    assert!(!compile(KernelFolder::Installation), "an entry of the cache serves one version only");
    assert!(compile(KernelFolder::Installation));
}

#[test]
fn an_unwritable_cache_folder_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let error = cuda::compile_kernels(
        &modules(),
        &[OPTIMISED],
        KernelFolder::Cache,
        &file,
        &folders(),
        &LoadProgress::default(),
    )
    .expect_err("a file is not a folder");
    assert!(matches!(error, cuda::CompileError::Cache { .. }), "{error}");
}

#[test]
fn an_architecture_that_nvrtc_no_longer_supports_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = cuda::compile_kernels(
        &modules(),
        &[Arch::new(5, 0)],
        KernelFolder::Cache,
        folder.path(),
        &folders(),
        &LoadProgress::default(),
    )
    .expect_err("too old");
    assert!(error.to_string().contains("sm_50"), "{error}");
}

#[test]
fn discovery_without_a_device_returns_a_one_line_reason() {
    let settings = Settings { cuda_library_paths: folders(), ..Settings::default() };
    if let Err(reason) = cuda::discover(&settings, &modules(), &Pool::start(1).expect("one thread")) {
        assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
    }
}

/// Parameter sizes of each entry of a PTX text.
fn parameters(ptx: &str) -> BTreeMap<String, Vec<usize>> {
    let entries = ptx.split(".entry ").skip(1);
    entries
        .map(|entry| {
            let (name, rest) = entry.split_once('(').expect("a list of parameters");
            let list = rest.split_once(')').expect("its end").0;
            (name.trim().to_owned(), list.split(".param").skip(1).map(size).collect())
        })
        .collect()
}

/// Size of `.u64 name`, `.align 8 .b8 name[24]` or `.u64 .ptr .align 1 name`.
fn size(parameter: &str) -> usize {
    let words: Vec<_> = parameter.trim().trim_end_matches(',').split_whitespace().collect();
    let of = |word: &str| match word {
        ".b8" | ".s8" | ".u8" => Some(1),
        ".b16" | ".s16" | ".u16" | ".f16" => Some(2),
        ".b32" | ".s32" | ".u32" | ".f32" => Some(4),
        ".b64" | ".s64" | ".u64" | ".f64" => Some(8),
        _ => None,
    };
    let one = words.iter().find_map(|word| of(word)).unwrap_or_else(|| panic!("no type in {parameter:?}"));
    let name = words.last().expect("a name");
    let count = name.split_once('[').map(|(_, count)| count.trim_end_matches(']').parse().expect("a count"));
    one * count.unwrap_or(1)
}
