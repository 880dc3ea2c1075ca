//! Which functions leave their instance as it was.
//!
//! A function is pure if neither it nor any function that it can reach writes a global, memory or table. Cases of a pure function cannot
//! observe each other, so that one instance serves all of them, and the results are those of a new instance for each.

use wasmparser::{BinaryReader, FunctionBody, Operator};

/// Effects of functions, in the order of their index space.
#[derive(Default)]
pub(super) struct Purity {
    /// True for each function that writes, or calls an unknown one.
    writes: Vec<bool>,
    /// Direct calls: caller and callee.
    calls: Vec<(u32, u32)>,
}

impl Purity {
    /// Adds an imported function. The provided ones are pure.
    pub(super) fn add_import(&mut self) {
        self.writes.push(false);
    }

    /// Adds a function of `module`.
    pub(super) fn add_function(
        &mut self,
        module: &[u8],
        body: &FunctionBody<'_>,
    ) -> Result<(), wasmparser::BinaryReaderError> {
        let caller = u32::try_from(self.writes.len()).unwrap_or(u32::MAX);
        let mut operators = body.get_operators_reader()?;
        let mut writes = false;
        while !operators.eof() {
            let position = operators.original_position();
            let operator = operators.read()?;
            if let Operator::Call { function_index } | Operator::ReturnCall { function_index } = operator {
                self.calls.push((caller, function_index));
            } else {
                writes |= !is_pure(module.get(position..).unwrap_or_default());
            }
        }
        self.writes.push(writes);
        Ok(())
    }

    /// Returns true for each function that is impure.
    pub(super) fn impure_functions(&self) -> Vec<bool> {
        let mut callers: Vec<Vec<u32>> = vec![vec![]; self.writes.len()];
        let mut impure = self.writes.clone();
        for (caller, callee) in &self.calls {
            match callers.get_mut(*callee as usize) {
                Some(list) => list.push(*caller),
                None => impure[*caller as usize] = true,
            }
        }
        let mut pending: Vec<_> = (0..impure.len()).filter(|function| impure[*function]).collect();
        while let Some(function) = pending.pop() {
            for caller in std::mem::take(&mut callers[function]) {
                if !std::mem::replace(&mut impure[caller as usize], true) {
                    pending.push(caller as usize);
                }
            }
        }
        impure
    }
}

/// Returns true if the instruction at the start of `code`, which is not a direct call, changes no state but its own stack.
fn is_pure(code: &[u8]) -> bool {
    let Some((opcode, rest)) = code.split_first() else { return false };
    match opcode {
        // Control without calls and exceptions; drop and select; local variables.
        0x00..=0x05 | 0x0b..=0x0f | 0x1a..=0x1c | 0x20..=0x22
        // global.get, table.get, loads, memory.size.
        | 0x23 | 0x25 | 0x28..=0x35 | 0x3f
        // Constants, comparisons, arithmetic, conversions; null references and references to functions.
        | 0x41..=0xc4 | 0xd0..=0xd2 => true,
        // Saturating conversions; table.size. The others of this prefix write memory or tables.
        0xfc => matches!(subopcode(rest), Some(0..=7 | 16)),
        // SIMD, but for v128.store and the stores of lanes.
        0xfd => matches!(subopcode(rest), Some(0..=10 | 12..=87 | 92..=255)),
        _ => false,
    }
}

fn subopcode(code: &[u8]) -> Option<u32> {
    BinaryReader::new(code, 0).read_var_u32().ok()
}

#[cfg(test)]
mod tests {
    use super::super::inspect::inspect;
    use crate::limits::ModuleLimits;

    fn pure(text: &str) -> Vec<bool> {
        let binary = wat::parse_str(text).expect("the text is a module");
        let info = inspect(&binary, &ModuleLimits::default()).expect("a module within the limits");
        info.functions.iter().map(|function| function.is_pure).collect()
    }

    #[test]
    fn a_function_is_as_impure_as_what_it_calls() {
        let module = r#"(module (memory 1) (global $g (mut i32) (i32.const 0))
            (func $write (global.set $g (i32.const 1)))
            (func $even (export "even") (param i32) (result i32) (call $odd (local.get 0)))
            (func $odd (export "odd") (param i32) (result i32) (call $even (local.get 0)))
            (func (export "reads") (result i64) (i64.load (global.get $g)))
            (func $middle (call $write))
            (func (export "indirectly") (call $middle)))"#;
        assert_eq!(pure(module), [true, true, true, false]);
    }

    #[test]
    fn instructions_that_write_are_impure() {
        for body in [
            "(global.set $g (i32.const 1))",
            "(i32.store (i32.const 0) (i32.const 1))",
            "(f64.store (i32.const 0) (f64.const 1))",
            "(i64.store8 (i32.const 0) (i64.const 1))",
            "(v128.store (i32.const 0) (v128.const i64x2 0 0))",
            "(v128.store8_lane 0 (i32.const 0) (v128.const i64x2 0 0))",
            "(v128.store64_lane 0 (i32.const 0) (v128.const i64x2 0 0))",
            "(drop (memory.grow (i32.const 1)))",
            "(memory.fill (i32.const 0) (i32.const 0) (i32.const 1))",
            "(memory.copy (i32.const 0) (i32.const 0) (i32.const 1))",
            "(memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))",
            "(data.drop $d)",
            "(elem.drop $e)",
            "(table.set (i32.const 0) (ref.null func))",
            "(drop (table.grow (ref.null func) (i32.const 1)))",
            "(table.fill (i32.const 0) (ref.null func) (i32.const 1))",
            "(table.copy (i32.const 0) (i32.const 0) (i32.const 1))",
            "(table.init $e (i32.const 0) (i32.const 0) (i32.const 1))",
            "(call_indirect (i32.const 0))",
        ] {
            let module = format!(
                r#"(module (memory 1) (table 1 funcref) (global $g (mut i32) (i32.const 0)) (data $d "x") (elem $e func 0)
                (func (export "f") {body}))"#
            );
            assert_eq!(pure(&module), [false], "{body}");
        }
    }

    #[test]
    fn computing_and_loading_is_pure() {
        for body in [
            "(f64.add (f64.const 1) (f64.load (i32.const 8)))",
            "(i32.trunc_sat_f64_s (f64.const 1))",
            "(table.size 0)",
            "(memory.size)",
            "(global.get $g)",
            "(f32x4.add (v128.load (i32.const 0)) (v128.const i64x2 0 0))",
            "(v128.load8_lane 0 (i32.const 0) (v128.const i64x2 0 0))",
            "(v128.load64_zero (i32.const 0))",
            "(i32.extend8_s (i32.const 200))",
            "(block (result i32) (br_if 0 (i32.const 1) (i32.const 2)) (drop) (unreachable))",
            "(ref.is_null (ref.func 0))",
        ] {
            let module = format!(
                r#"(module (memory 1) (table 1 funcref) (global $g (mut i32) (i32.const 0)) (elem declare func 0)
                (func (export "f") (drop {body})))"#
            );
            assert_eq!(pure(&module), [true], "{body}");
        }
    }

    #[test]
    fn a_module_with_a_start_function_has_no_pure_function() {
        assert_eq!(pure(r#"(module (func $s) (start $s) (func (export "f")))"#), [false]);
    }
}
