//! Element types of tensors in messages and in graphs.

use accelerd_proto::v1 as pb;
use accelerd_tensor::Dtype;

pub(super) fn dtype_from_proto(dtype: pb::Dtype) -> Option<Dtype> {
    Some(match dtype {
        pb::Dtype::Unspecified => return None,
        pb::Dtype::F16 => Dtype::F16,
        pb::Dtype::Bf16 => Dtype::Bf16,
        pb::Dtype::F32 => Dtype::F32,
        pb::Dtype::F64 => Dtype::F64,
        pb::Dtype::I8 => Dtype::I8,
        pb::Dtype::I32 => Dtype::I32,
        pb::Dtype::I64 => Dtype::I64,
        pb::Dtype::U8 => Dtype::U8,
        pb::Dtype::I16 => Dtype::I16,
        pb::Dtype::U16 => Dtype::U16,
        pb::Dtype::U32 => Dtype::U32,
        pb::Dtype::U64 => Dtype::U64,
        pb::Dtype::Bool => Dtype::Bool,
    })
}

pub(super) fn dtype_to_proto(dtype: Dtype) -> pb::Dtype {
    match dtype {
        Dtype::Bool => pb::Dtype::Bool,
        Dtype::U8 => pb::Dtype::U8,
        Dtype::I8 => pb::Dtype::I8,
        Dtype::U16 => pb::Dtype::U16,
        Dtype::I16 => pb::Dtype::I16,
        Dtype::U32 => pb::Dtype::U32,
        Dtype::I32 => pb::Dtype::I32,
        Dtype::U64 => pb::Dtype::U64,
        Dtype::I64 => pb::Dtype::I64,
        Dtype::F16 => pb::Dtype::F16,
        Dtype::Bf16 => pb::Dtype::Bf16,
        Dtype::F32 => pb::Dtype::F32,
        Dtype::F64 => pb::Dtype::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_have_equal_counterparts() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype_from_proto(dtype_to_proto(dtype)), Some(dtype));
        }
        assert_eq!(dtype_from_proto(pb::Dtype::Unspecified), None);
    }
}
