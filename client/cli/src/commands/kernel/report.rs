//! The report of translations.

use std::path::Path;

use accelerd_client::{
    Translation,
    proto::{KernelDiagnostic, KernelParam, TranslatedKernel},
};
use serde::Serialize;

use crate::{
    format::bytes,
    output::Report,
    renderer::{Renderer, Style, Table},
};

/// Dimensions of an array that are written out. Kernels have fewer, but a daemon may send any number.
const MAX_DIMS: u32 = 16;

/// The translations of a module.
#[derive(Serialize)]
pub struct Translations {
    kernels: Vec<KernelReport>,
    diagnostics: Vec<DiagnosticReport>,
}

#[derive(Serialize)]
struct KernelReport {
    name: String,
    grid_dims: u32,
    params: Vec<String>,
    bit_exact: bool,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct FileReport {
    name: String,
    bytes: u64,
}

#[derive(Serialize)]
struct DiagnosticReport {
    file: String,
    line: u32,
    column: u32,
    kernel: String,
    code: String,
    message: String,
}

impl Translations {
    pub fn of(file: &Path, translation: &Translation) -> Self {
        Self {
            kernels: translation.kernels.iter().map(KernelReport::of).collect(),
            diagnostics: translation
                .diagnostics
                .iter()
                .map(|diagnostic| DiagnosticReport::of(file, diagnostic))
                .collect(),
        }
    }
}

impl KernelReport {
    fn of(kernel: &TranslatedKernel) -> Self {
        let file = |file: &accelerd_client::proto::KernelFile| FileReport {
            name: file.name.clone(),
            bytes: file.content.len() as u64,
        };
        Self {
            name: kernel.name.clone(),
            grid_dims: kernel.grid_dims,
            params: kernel.params.iter().map(param).collect(),
            bit_exact: kernel.bit_exact,
            files: kernel.files.iter().map(file).collect(),
        }
    }
}

/// As in `x: f32[2]` for an array of two dimensions.
pub(super) fn param(param: &KernelParam) -> String {
    let types: Vec<_> = param
        .components
        .iter()
        .map(|component| component.dtype().as_str_name().trim_start_matches("DTYPE_").to_ascii_lowercase())
        .collect();
    let element = match &types[..] {
        [] => "unknown".to_owned(),
        [one] => one.clone(),
        all if all.iter().all(|dtype| *dtype == all[0]) => format!("{}x{}", all[0], all.len()),
        all => format!("({})", all.join(", ")),
    };
    let dims = match param.dims {
        0 => String::new(),
        dims @ 1..=MAX_DIMS => format!("[{}]", vec![":"; dims as usize].join(", ")),
        dims => format!("[{dims} dimensions]"),
    };
    format!("{}: {element}{dims}", param.name)
}

impl DiagnosticReport {
    fn of(file: &Path, diagnostic: &KernelDiagnostic) -> Self {
        Self {
            file: file.display().to_string(),
            line: diagnostic.line,
            column: diagnostic.column,
            kernel: diagnostic.kernel.clone(),
            code: diagnostic.code.clone(),
            message: diagnostic.message.clone(),
        }
    }
}

impl Report for Translations {
    fn render(&self, renderer: &mut Renderer) {
        let mut table = Table::new(["<kernel", "<parameters", "?<bits", "<files"]);
        for kernel in &self.kernels {
            let files: Vec<_> =
                kernel.files.iter().map(|file| format!("{} ({})", file.name, bytes(file.bytes))).collect();
            table.row([
                kernel.name.clone(),
                kernel.params.join(", "),
                if kernel.bit_exact { "exact".to_owned() } else { String::new() },
                files.join(", "),
            ]);
        }
        renderer.table(&table);
        for diagnostic in &self.diagnostics {
            let place = format!("{}:{}:{}", diagnostic.file, diagnostic.line, diagnostic.column + 1);
            let code = renderer.style(Style::Bad, &diagnostic.code);
            let kernel =
                if diagnostic.kernel.is_empty() { String::new() } else { format!(" in {}", diagnostic.kernel) };
            renderer.whole_line(format!("{place}: {code}{kernel}: {}", diagnostic.message));
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_client::proto::{Dtype, KernelComponent};

    use super::*;

    fn shown(components: usize, dims: u32) -> String {
        let component = KernelComponent { dtype: Dtype::F32.into(), ..Default::default() };
        param(&KernelParam { name: "x".into(), components: vec![component; components], dims, ..Default::default() })
    }

    #[test]
    fn any_parameter_that_a_daemon_sends_is_shown() {
        assert_eq!(shown(1, 2), "x: f32[:, :]");
        assert_eq!(shown(3, 1), "x: f32x3[:]");
        assert_eq!(shown(0, 1), "x: unknown[:]");
        assert_eq!(shown(0, u32::MAX), "x: unknown[4294967295 dimensions]");
    }
}
