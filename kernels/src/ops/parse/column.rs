//! One column: numbers in memory of their own, or where a GPU left them.

use std::{fmt, ops::Deref, sync::Arc};

use bytemuck::Pod;
use bytes::Bytes;

use crate::cuda::{Landed, Place};

/// Numbers of many sources, one behind the other. Read as a slice.
pub struct Column<T>(Memory<T>);

enum Memory<T> {
    Own(Vec<T>),
    /// Part of pinned memory, which other answers of the same launch may share.
    Landed {
        all: Arc<Landed>,
        place: Place<T>,
    },
}

impl<T: Pod> Column<T> {
    /// What a GPU copied to a place.
    pub(super) fn landed(all: &Arc<Landed>, place: Place<T>) -> Self {
        Self(Memory::Landed { all: Arc::clone(all), place })
    }
}

impl<T: Pod + Send + Sync> Column<T> {
    /// Its numbers as they lie in memory, without a copy.
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
            Memory::Own(own) => own,
            Memory::Landed { all, place } => all.get(*place),
        }
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(own: Vec<T>) -> Self {
        Self(Memory::Own(own))
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Memory::Own(vec![]))
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
    fn a_column_becomes_bytes_where_it_lies() {
        let column = Column::from(vec![1_u32, 0x0203_0405]);
        let at = column.as_ptr().cast::<u8>();
        let bytes = column.into_bytes();
        assert_eq!(bytes.as_ptr(), at);
        assert_eq!(bytes[..], [1, 0, 0, 0, 5, 4, 3, 2]);
        assert!(Column::<u32>::default().into_bytes().is_empty());
    }
}
