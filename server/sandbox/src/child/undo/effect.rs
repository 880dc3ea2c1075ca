//! Effects of instructions on an instance.

use wasm_encoder::ValType;
use wasmparser::Operator;

/// Effect of an instruction on the instance, or its dependency on the memory's size.
pub(super) enum Effect {
    /// Stores a value at an address.
    Store {
        size: i32,
        value: ValType,
        offset: u32,
    },
    /// Loads from an address, to a lane of the topmost operand if `is_lane`.
    Load {
        size: i32,
        offset: u32,
        is_lane: bool,
    },
    /// Writes bytes of memory: the address is the lowest operand, their number the topmost. If it `reads` memory, the address is between them.
    Range {
        reads: bool,
    },
    /// Returns the size of memory.
    Size,
    /// Grows memory.
    Grow,
    NotLogged,
}

impl Effect {
    /// Returns true if it matters only where memory grows.
    pub(super) fn is_of_growth(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Size | Self::Grow)
    }

    /// Returns true if the added code takes the place of the instruction.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self, Self::Size | Self::Grow)
    }
}

/// The effect of an instruction, besides on globals. Instructions that are refused have any.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others have none, or the compiler refuses them")]
pub(super) fn effect(operator: &Operator<'_>) -> Option<Effect> {
    use Operator as Op;
    let (size, value, memarg) = match operator {
        Op::I32Store8 { memarg } => (1, ValType::I32, memarg),
        Op::I32Store16 { memarg } => (2, ValType::I32, memarg),
        Op::I32Store { memarg } => (4, ValType::I32, memarg),
        Op::I64Store8 { memarg } => (1, ValType::I64, memarg),
        Op::I64Store16 { memarg } => (2, ValType::I64, memarg),
        Op::I64Store32 { memarg } => (4, ValType::I64, memarg),
        Op::I64Store { memarg } => (8, ValType::I64, memarg),
        Op::F32Store { memarg } => (4, ValType::F32, memarg),
        Op::F64Store { memarg } => (8, ValType::F64, memarg),
        Op::V128Store { memarg } => (16, ValType::V128, memarg),
        Op::V128Store8Lane { memarg, .. } => (1, ValType::V128, memarg),
        Op::V128Store16Lane { memarg, .. } => (2, ValType::V128, memarg),
        Op::V128Store32Lane { memarg, .. } => (4, ValType::V128, memarg),
        Op::V128Store64Lane { memarg, .. } => (8, ValType::V128, memarg),
        Op::MemoryCopy { .. } => return Some(Effect::Range { reads: true }),
        Op::MemoryFill { .. } | Op::MemoryInit { .. } => return Some(Effect::Range { reads: false }),
        Op::MemorySize { .. } => return Some(Effect::Size),
        Op::MemoryGrow { .. } => return Some(Effect::Grow),
        Op::DataDrop { .. }
        | Op::ElemDrop { .. }
        | Op::TableSet { .. }
        | Op::TableGrow { .. }
        | Op::TableFill { .. }
        | Op::TableCopy { .. }
        | Op::TableInit { .. } => return Some(Effect::NotLogged),
        _ => return load(operator),
    };
    Some(Effect::Store { size, value, offset: offset(memarg) })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others load nothing, or the compiler refuses them")]
fn load(operator: &Operator<'_>) -> Option<Effect> {
    use Operator as Op;
    let (size, memarg, is_lane) = match operator {
        Op::I32Load8S { memarg }
        | Op::I32Load8U { memarg }
        | Op::I64Load8S { memarg }
        | Op::I64Load8U { memarg }
        | Op::V128Load8Splat { memarg } => (1, memarg, false),
        Op::I32Load16S { memarg }
        | Op::I32Load16U { memarg }
        | Op::I64Load16S { memarg }
        | Op::I64Load16U { memarg }
        | Op::V128Load16Splat { memarg } => (2, memarg, false),
        Op::I32Load { memarg }
        | Op::F32Load { memarg }
        | Op::I64Load32S { memarg }
        | Op::I64Load32U { memarg }
        | Op::V128Load32Splat { memarg }
        | Op::V128Load32Zero { memarg } => (4, memarg, false),
        Op::I64Load { memarg }
        | Op::F64Load { memarg }
        | Op::V128Load8x8S { memarg }
        | Op::V128Load8x8U { memarg }
        | Op::V128Load16x4S { memarg }
        | Op::V128Load16x4U { memarg }
        | Op::V128Load32x2S { memarg }
        | Op::V128Load32x2U { memarg }
        | Op::V128Load64Splat { memarg }
        | Op::V128Load64Zero { memarg } => (8, memarg, false),
        Op::V128Load { memarg } => (16, memarg, false),
        Op::V128Load8Lane { memarg, .. } => (1, memarg, true),
        Op::V128Load16Lane { memarg, .. } => (2, memarg, true),
        Op::V128Load32Lane { memarg, .. } => (4, memarg, true),
        Op::V128Load64Lane { memarg, .. } => (8, memarg, true),
        _ => return None,
    };
    Some(Effect::Load { size, offset: offset(memarg), is_lane })
}

/// Offsets of 32-bit memories have 32 bits.
fn offset(memarg: &wasmparser::MemArg) -> u32 {
    u32::try_from(memarg.offset).unwrap_or(u32::MAX)
}
