//! Compiles CUDA C++ for the host, with a header in place of CUDA's, and runs it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A folder for a test, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for temporary files of tests is writable");
    folder
}

/// Compiles C++ to a program, with undefined behavior made a trap.
pub(crate) fn compile(folder: &Path, text: &str) -> PathBuf {
    let source = folder.join("program.cpp");
    let program = folder.join("program");
    fs::write(&source, text).expect("the folder is writable");
    let shim = concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/shim");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-fsanitize=undefined"])
        .args([
            "-fno-sanitize=alignment,float-divide-by-zero,null,vptr",
            "-fsanitize-undefined-trap-on-error",
            "-I",
            shim,
            "-o",
        ])
        .args([&program, &source])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The text without the paragraphs in PTX, which the host's compiler cannot read and the shim defines.
pub(crate) fn without_ptx(text: &str) -> String {
    let is_ptx = |paragraph: &&str| paragraph.contains("asm(") && !paragraph.contains("__CUDA_ARCH__");
    text.split("\n\n").filter(|paragraph| !is_ptx(paragraph)).collect::<Vec<_>>().join("\n\n")
}

/// Runs a program on the given standard input.
pub(crate) fn feed(program: &Path, input: &[u8]) -> Output {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program was compiled");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program runs");
    let _ = writer.join().expect("the thread writes");
    output
}
