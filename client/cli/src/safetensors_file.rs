//! Reads and writes tensors of safetensors files, each tensor without the rest of its file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use accelerd_client::proto::Tensor;
use safetensors::{
    SafeTensorError, serialize_to_file,
    tensor::{Metadata, TensorInfo, TensorView},
};

use crate::{
    dtype,
    error::{CliError, Result},
};

/// Maximum size of a header, as of the format's own library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Names in errors.
const SHOWN_NAMES: usize = 8;

/// An open file.
struct Opened {
    file: File,
    tensors: Metadata,
    /// Where the elements start.
    data_start: u64,
}

/// Reads a tensor by its name; without a name, the only one of the file.
pub fn read(path: &Path, name: Option<&str>) -> Result<Tensor> {
    let format = |reason: String| CliError::Format { path: path.to_owned(), reason };
    let mut opened = open(path)?;
    let info = opened.find(name).map_err(format)?;
    let stored = dtype::ALL.iter().find(|known| known.stored == info.dtype);
    let dtype = stored.ok_or_else(|| format(format!("expected a type of {}, got {}", dtype::names(), info.dtype)))?;
    let shape = info.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
    let (start, end) = info.data_offsets;
    let data = opened.read(start, end - start).map_err(CliError::file(path))?;
    Ok(Tensor { dtype: dtype.dtype.into(), shape, data: data.into() })
}

/// Writes named tensors.
pub fn write<'a>(path: &Path, tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result {
    let view = |(name, tensor): (&'a str, &'a Tensor)| {
        let shape = tensor.shape.iter().map(|extent| usize::try_from(*extent).unwrap_or_default()).collect();
        Ok((name, TensorView::new(dtype::of(tensor.dtype()).stored, shape, &tensor.data)?))
    };
    let views = tensors.into_iter().map(view).collect::<Result<Vec<_>, SafeTensorError>>();
    views.and_then(|views| serialize_to_file(views, None, path)).map_err(|error| {
        if let SafeTensorError::IoError(source) = error {
            return CliError::File { path: path.to_owned(), source };
        }
        CliError::Format { path: path.to_owned(), reason: error.to_string() }
    })
}

fn open(path: &Path) -> Result<Opened> {
    let format = |reason: String| CliError::Format { path: path.to_owned(), reason };
    let file = File::open(path).map_err(CliError::file(path))?;
    let file_bytes = file.metadata().map_err(CliError::file(path))?.len();
    let header = read_header(&file, file_bytes)
        .map_err(CliError::file(path))?
        .ok_or_else(|| format("is truncated or no safetensors file".to_owned()))?;
    let tensors: Metadata = serde_json::from_slice(&header).map_err(|error| format(format!("header: {error}")))?;
    let data_start = 8 + header.len() as u64;
    let expected = tensors.data_len() as u64;
    let got = file_bytes - data_start;
    if expected == got {
        Ok(Opened { file, tensors, data_start })
    } else {
        Err(format(format!("expected {expected} bytes of elements, got {got}")))
    }
}

/// The header, unless the file is too short for it.
fn read_header(mut file: &File, file_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    if file_bytes < 8 {
        return Ok(None);
    }
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES.min(file_bytes - 8) {
        return Ok(None);
    }
    let mut header = vec![];
    file.take(length).read_to_end(&mut header)?;
    Ok(Some(header))
}

impl Opened {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.tensors.tensors().into_keys().collect();
        names.sort();
        names
    }

    fn find(&self, name: Option<&str>) -> Result<TensorInfo, String> {
        let names = self.names();
        let name = match (name, &names[..]) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => return Err(format!("expected FILE:NAME with a name of {}", listed(&names))),
        };
        let found = self.tensors.info(name).cloned();
        found.ok_or_else(|| format!("expected a tensor of {}, got {name:?}", listed(&names)))
    }

    fn read(&mut self, start: usize, bytes: usize) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        let mut data = vec![0; bytes];
        self.file.read_exact(&mut data)?;
        Ok(data)
    }
}

fn listed(names: &[String]) -> String {
    let more = if names.len() > SHOWN_NAMES { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN_NAMES)].join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use accelerd_client::proto::Dtype;

    use super::*;

    fn tensor(dtype: Dtype, shape: &[i64], data: &[u8]) -> Tensor {
        Tensor { dtype: dtype.into(), shape: shape.to_vec(), data: data.to_vec().into() }
    }

    #[test]
    fn tensors_are_written_and_read_back_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let weight = tensor(Dtype::Bf16, &[2, 1], &[1, 2, 3, 4]);
        let bias = tensor(Dtype::Bool, &[], &[1]);
        write(&path, [("weight", &weight), ("bias", &bias)]).unwrap();
        assert_eq!((read(&path, Some("weight")).unwrap(), read(&path, Some("bias")).unwrap()), (weight, bias));
        assert_eq!(open(&path).unwrap().names(), ["bias", "weight"]);
        let refused = |name| read(&path, name).unwrap_err().to_string();
        assert!(refused(None).contains("bias, weight"), "{}", refused(None));
        assert!(refused(Some("w")).contains("bias, weight") && refused(Some("w")).contains("\"w\""));
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path, None).unwrap_err().to_string()
        };
        let file = |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
        assert!(refused(b"short").contains("no safetensors file"));
        assert!(refused(&u64::MAX.to_le_bytes()).contains("no safetensors file"));
        let header = r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert!(refused(&file(header, &[0; 4])).contains("expected 8 bytes"));
        let wrong = r#"{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#;
        assert!(refused(&file(wrong, &[0; 8])).contains("header"));
        let complex = r#"{"x":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}"#;
        assert!(refused(&file(complex, &[0; 8])).contains("C64"));
        assert!(matches!(read(&folder.path().join("gone"), None), Err(CliError::File { .. })));
    }
}
