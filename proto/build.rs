//! Compiles the .proto files with protox, so that no system protoc is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 8] = [
    "accelerd/v1/device.proto",
    "accelerd/v1/embed.proto",
    "accelerd/v1/error.proto",
    "accelerd/v1/kernel.proto",
    "accelerd/v1/parse.proto",
    "accelerd/v1/similarity.proto",
    "accelerd/v1/tensor.proto",
    "accelerd/v1/verify.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=accelerd");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(FILES, ["."])?;
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
