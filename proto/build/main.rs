//! Compiles the .proto files with protox, so that no system protoc is needed, and generates the table of methods.

mod methods;

use std::{env, error::Error, fs, path::PathBuf};

use protox::Compiler;

const FILES: [&str; 10] = [
    "accelerd/v1/device.proto",
    "accelerd/v1/embed.proto",
    "accelerd/v1/error.proto",
    "accelerd/v1/kernel.proto",
    "accelerd/v1/options.proto",
    "accelerd/v1/parse.proto",
    "accelerd/v1/similarity.proto",
    "accelerd/v1/tensor.proto",
    "accelerd/v1/verify.proto",
    "inference/grpc_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=accelerd");
    println!("cargo:rerun-if-changed=inference");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = Compiler::new(["."])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("methods.rs"), methods::generate(&compiler.descriptor_pool())?)?;
    let descriptors = compiler.file_descriptor_set();
    // The default stubs are for doubles in tests: the daemon implements traits of its own, which have none.
    tonic_prost_build::configure().bytes(".").btree_map(".").generate_default_stubs(true).compile_fds(descriptors)?;
    Ok(())
}
