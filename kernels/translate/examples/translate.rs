//! `translate FOLDER FILE.py ..`: writes the files of each kernel to a folder of its own, and prints kernels that are not translated.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::{env, error::Error, fs, ops::ControlFlow, path::PathBuf, time::Instant};

use accelerd_translate::{Request, translate};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("expected a folder and Python files")?);
    let mut kernels = 0;
    let mut diagnostics = 0;
    let start = Instant::now();
    for path in arguments.map(PathBuf::from) {
        let request = Request { source: fs::read_to_string(&path)?, max_bytes: 1 << 30, ..Request::default() };
        let translation = translate(&request, || ControlFlow::Continue(()))?;
        let module = path.file_stem().ok_or("expected a file")?.to_string_lossy().into_owned();
        for kernel in &translation.kernels {
            let folder = folder.join(format!("{module}.{}.{kernels}", kernel.name));
            fs::create_dir_all(&folder)?;
            kernel.files.iter().try_for_each(|file| fs::write(folder.join(&file.name), &file.content))?;
            kernels += 1;
        }
        for diagnostic in &translation.diagnostics {
            println!(
                "{}:{}:{}: {} {}: {}",
                path.display(),
                diagnostic.line,
                diagnostic.column + 1,
                diagnostic.code,
                diagnostic.kernel,
                diagnostic.message
            );
        }
        diagnostics += translation.diagnostics.len();
    }
    println!("{kernels} kernels and {diagnostics} diagnostics in {:?}", start.elapsed());
    Ok(())
}
