//! One column: numbers in host memory, or in pinned memory that a GPU wrote.

use std::{fmt, ops::Deref, sync::Arc};

use bytemuck::Pod;
use bytes::Bytes;

use crate::cuda::{HostBuffer, Region};

/// The numbers of consecutive sources. Dereferences to a slice.
pub struct Column<T>(Memory<T>);

enum Memory<T> {
    Host(Vec<T>),
    /// A part of pinned memory, which other responses of the same batch may share.
    Pinned {
        all: Arc<HostBuffer>,
        region: Region<T>,
    },
}

impl<T: Pod> Column<T> {
    pub(super) fn pinned(all: &Arc<HostBuffer>, region: Region<T>) -> Self {
        Self(Memory::Pinned { all: Arc::clone(all), region })
    }
}

impl<T: Pod + Send + Sync> Column<T> {
    /// The numbers in native byte order, without a copy.
    pub fn into_bytes(self) -> Bytes {
        struct Owner<T>(Column<T>);
        impl<T: Pod> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        Bytes::from_owner(Owner(self))
    }
}

impl<T: Pod> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Host(numbers) => numbers,
            Memory::Pinned { all, region } => all.get(*region),
        }
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(numbers: Vec<T>) -> Self {
        Self(Memory::Host(numbers))
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Memory::Host(vec![]))
    }
}

impl<T: Pod> Clone for Column<T> {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: Pod + PartialEq> PartialEq for Column<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Column<T> {}

impl<T: Pod + fmt::Debug> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_becomes_bytes_without_a_copy() {
        let column = Column::from(vec![1_u32, 0x0203_0405]);
        let address = column.as_ptr().cast::<u8>();
        let bytes = column.into_bytes();
        assert_eq!(bytes.as_ptr(), address);
        assert_eq!(bytes[..], [1, 0, 0, 0, 5, 4, 3, 2]);
        assert!(Column::<u32>::default().into_bytes().is_empty());
    }
}
