//! Lowers the kernels of Python files and prints what became of each: `lower [--python] [--ir] FILE...`.

use std::process::ExitCode;

use accelerd_lower::{Dialect, Options, lower_each};

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut prints_ir = false;
    let mut out = std::io::stdout().lock();
    let mut failed = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--python" => options.dialect = Dialect::Python,
            "--ir" => prints_ir = true,
            path => failed |= report(&mut out, path, &options, prints_ir).is_err(),
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints a line for each kernel of a file: `PATH NAME ok`, or `PATH NAME CODE LINE:COLUMN MESSAGE`.
fn report(out: &mut impl std::io::Write, path: &str, options: &Options<'_>, prints_ir: bool) -> std::io::Result<()> {
    let source = std::fs::read_to_string(path)?;
    let outcomes = match lower_each(&source, options) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            return writeln!(out, "{path} - {} {}:{} {}", error.kind.code(), error.line, error.column, error.message);
        }
    };
    for outcome in outcomes {
        match outcome.kernel {
            Ok(lowered) => {
                writeln!(out, "{path} {} ok", outcome.name)?;
                if prints_ir {
                    writeln!(out, "{:#?}", lowered.kernel)?;
                }
            }
            Err(error) => {
                let code = error.kind.code();
                let line = error.line;
                let column = error.column;
                writeln!(out, "{path} {} {code} {line}:{column} {}", outcome.name, error.message)?;
            }
        }
    }
    out.flush()
}
