//! Functions of the module, with code that logs before their effects.

use wasm_encoder::{BlockType, Encode, InstructionSink, ValType};
use wasmparser::{BinaryReaderError, FunctionBody};

use super::{
    SIZES, count,
    effect::{Effect, effect},
    log::{Log, OF_MODULE, PAGE_BITS},
};

/// Variables that are added to a function: address, length and the operand between them, which may also be the value of a store; values of
/// other types.
const ADDED_LOCALS: [(u32, ValType); 5] =
    [(3, ValType::I32), (1, ValType::I64), (1, ValType::F32), (1, ValType::F64), (1, ValType::V128)];

struct AddedLocals {
    first: u32,
    used: bool,
}

impl Log {
    /// Returns the body of a function of the module, with code that logs before its effects.
    pub(super) fn body(&self, body: &FunctionBody<'_>, params: u32) -> Result<Vec<u8>, BinaryReaderError> {
        let bytes = body.as_bytes();
        let mut locals = body.get_locals_reader()?;
        let mut declared = 0_u32;
        let groups = locals.get_count();
        let groups_at = locals.original_position();
        for _ in 0..groups {
            declared = declared.saturating_add(locals.read()?.0);
        }
        let start = body.range().start;
        let declarations = &bytes[groups_at - start..locals.original_position() - start];
        let mut added_locals = AddedLocals { first: params.saturating_add(declared), used: false };
        let mut code = vec![];
        let mut copied = locals.original_position() - start;
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let position = operators.original_position() - start;
            let Some(effect) = effect(&operators.read()?).filter(|effect| self.grows || !effect.is_of_growth()) else {
                continue;
            };
            code.extend(&bytes[copied..position]);
            copied = if effect.is_replaced() { operators.original_position() - start } else { position };
            self.before(&effect, &mut added_locals, InstructionSink::new(&mut code));
        }
        let mut logged = vec![];
        let added = if added_locals.used { ADDED_LOCALS.len() } else { 0 };
        (groups + count(added)).encode(&mut logged);
        logged.extend(declarations);
        for (number, ty) in &ADDED_LOCALS[..added] {
            number.encode(&mut logged);
            ty.encode(&mut logged);
        }
        logged.extend(code);
        logged.extend(&bytes[copied..]);
        Ok(logged)
    }

    /// Writes the code that runs before an effect, or in its place. Its operands are on the stack.
    fn before(&self, effect: &Effect, added_locals: &mut AddedLocals, mut code: InstructionSink<'_>) {
        let [address, length, middle] = [0, 1, 2].map(|nth| added_locals.first + nth);
        added_locals.used |= !matches!(effect, Effect::Size | Effect::Grow | Effect::NotLogged);
        match effect {
            Effect::Store { size, value, offset } => {
                let value = added_locals.first + value_place(*value);
                code.local_set(value).local_tee(address);
                self.check_access(address, *offset, *size, &mut code);
                if *offset > 0 {
                    // An address that wraps is beyond the memory, where the store traps.
                    code.i32_const(offset.cast_signed()).i32_add();
                }
                let nth = SIZES.iter().position(|one| one == size).expect("stores have these sizes");
                code.call(self.functions + count(nth)).local_get(address).local_get(value);
            }
            Effect::Load { size, offset, is_lane } => {
                let lanes = added_locals.first + value_place(ValType::V128);
                if *is_lane {
                    code.local_set(lanes);
                }
                code.local_tee(address);
                self.check_access(address, *offset, *size, &mut code);
                if *is_lane {
                    code.local_get(lanes);
                }
            }
            Effect::Range { reads } => {
                code.local_set(length).local_set(middle).local_set(address);
                self.check_range(address, length, &mut code);
                if *reads {
                    self.check_range(middle, length, &mut code);
                }
                code.local_get(address).local_get(length).call(self.function_of_range());
                code.local_get(address).local_get(middle).local_get(length);
            }
            Effect::Size => {
                self.visible(&mut code);
                code.i64_const(PAGE_BITS).i64_shr_u().i32_wrap_i64();
            }
            Effect::Grow => {
                code.call(self.function_of_range() + 1);
            }
            Effect::NotLogged => {
                code.i32_const(1).global_set(self.spent());
            }
        }
    }

    /// Traps if an access is beyond the limit.
    fn check_access(&self, address: u32, offset: u32, size: i32, code: &mut InstructionSink<'_>) {
        if self.grows {
            code.local_get(address).i64_extend_i32_u().i64_const(i64::from(offset) + i64::from(size)).i64_add();
            self.trap_beyond(code);
        }
    }

    /// The same for a range of bytes.
    fn check_range(&self, address: u32, length: u32, code: &mut InstructionSink<'_>) {
        if self.grows {
            code.local_get(address).i64_extend_i32_u().local_get(length).i64_extend_i32_u().i64_add();
            self.trap_beyond(code);
        }
    }

    /// Traps if the end on the stack is beyond the limit, as an access there would.
    fn trap_beyond(&self, code: &mut InstructionSink<'_>) {
        code.global_get(self.limit()).i64_gt_u().if_(BlockType::Empty);
        code.i32_const(-1).i32_load(OF_MODULE).drop().end();
    }
}

fn value_place(ty: ValType) -> u32 {
    match ty {
        ValType::I32 | ValType::Ref(_) => 2,
        ValType::I64 => 3,
        ValType::F32 => 4,
        ValType::F64 => 5,
        ValType::V128 => 6,
    }
}
