//! Constants in the code of exported functions, and in that of all functions that they can reach. A function tends to change its behaviour
//! there, so that callers generate cases with these values.
//!
//! The module may not have been validated: an index that refers to nothing is ignored, and all work is bounded.

use std::collections::{HashMap, HashSet, VecDeque};

use wasmparser::{
    BinaryReaderError, ConstExpr, DataKind, DataSectionReader, ElementItems, ElementSectionReader, FunctionBody,
    GlobalSectionReader, Operator,
};

use crate::protocol::FunctionConstants;

/// The most constants of each kind of an export.
const MAX_CONSTANTS: usize = 256;

/// The most constants of each kind of all exports together.
const MAX_ALL_CONSTANTS: usize = 1 << 15;

/// The most constants, loads, globals and callees of a function, each.
const MAX_ENTRIES: usize = 1 << 10;

/// The most entries of all functions together; the functions after them have none.
const MAX_ALL_ENTRIES: usize = 1 << 20;

/// The most entries that are visited for all exports; a function that an export reaches after them has no constants for it.
const MAX_VISITS: usize = 1 << 23;

/// The most elements of a table in memory.
const TABLE_ELEMENTS: usize = 64;

/// The most targets of a branch table.
const BRANCH_TARGETS: u32 = 64;

/// A constant at most this many instructions before a comparison or an address is taken as its operand.
const WINDOW: usize = 8;

/// The importance of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It is compared, or selects a branch.
    Compared,
    /// It stands in the code, or in a global that the code reads.
    Used,
    /// It stands in a table that the code reads.
    Table,
    /// It may be one, by its bytes in a vector.
    Lane,
}

/// An integer, or the bits of an f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Constant {
    Integer(i64),
    Float(u64),
}

impl Constant {
    fn float(number: f64) -> Self {
        Self::Float(number.to_bits())
    }

    /// Returns true if it is worth a case that callers do not have anyway.
    fn is_notable(self) -> bool {
        match self {
            Self::Integer(integer) => !(-1..=1).contains(&integer),
            Self::Float(bits) => {
                let magnitude = f64::from_bits(bits).abs();
                magnitude.is_finite() && magnitude != 0.0 && magnitude.to_bits() != 1f64.to_bits()
            }
        }
    }
}

/// Type of the elements of memory that an instruction loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Element {
    Signed(usize),
    Unsigned(usize),
    F32,
    F64,
}

impl Element {
    fn size(self) -> usize {
        match self {
            Self::Signed(size) | Self::Unsigned(size) => size,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn decode(self, bytes: &[u8]) -> Constant {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(whole);
        match self {
            Self::Signed(size) => {
                let unused = 64 - 8 * size;
                Constant::Integer((bits << unused).cast_signed() >> unused)
            }
            Self::Unsigned(_) => Constant::Integer(bits.cast_signed()),
            Self::F32 => {
                Constant::float(f32::from_bits(u32::from_le_bytes([whole[0], whole[1], whole[2], whole[3]])).into())
            }
            Self::F64 => Constant::Float(bits),
        }
    }
}

/// What the code of a function has.
#[derive(Debug, Default)]
struct Code {
    constants: Vec<(Rank, Constant)>,
    callees: Vec<u32>,
    /// True if it calls functions of a table.
    calls_table: bool,
    globals: Vec<u32>,
    /// Addresses that may be those of tables.
    loads: Vec<(u64, Element)>,
}

impl Code {
    fn entries(&self) -> usize {
        self.constants.len() + self.callees.len() + self.globals.len() + self.loads.len()
    }
}

/// The constants of a module.
#[derive(Default)]
pub(super) struct Constants<'a> {
    /// In the order of their index space.
    functions: Vec<Code>,
    globals: Vec<Option<Constant>>,
    /// Functions that stand in tables.
    table: Vec<u32>,
    /// Initial memory, by address.
    segments: Vec<(u64, &'a [u8])>,
    entries: usize,
}

impl<'a> Constants<'a> {
    /// Adds an imported function.
    pub(super) fn add_import(&mut self) {
        self.functions.push(Code::default());
    }

    pub(super) fn add_function(&mut self, body: &FunctionBody<'_>) -> Result<(), BinaryReaderError> {
        if self.entries >= MAX_ALL_ENTRIES {
            self.functions.push(Code::default());
            return Ok(());
        }
        let mut scanner = Scanner::default();
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            scanner.add(&operators.read()?);
        }
        self.entries += scanner.code.entries();
        self.functions.push(scanner.code);
        Ok(())
    }

    pub(super) fn add_globals(&mut self, globals: GlobalSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for global in globals {
            self.globals.push(value(&global?.init_expr)?);
        }
        Ok(())
    }

    pub(super) fn add_elements(&mut self, elements: ElementSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for element in elements {
            match element?.items {
                ElementItems::Functions(functions) => {
                    for function in functions {
                        self.add_to_table(function?);
                    }
                }
                ElementItems::Expressions(_, functions) => {
                    for function in functions {
                        if let Operator::RefFunc { function_index } = function?.get_operators_reader().read()? {
                            self.add_to_table(function_index);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn add_to_table(&mut self, function: u32) {
        if self.table.len() < MAX_ENTRIES {
            self.table.push(function);
        }
    }

    pub(super) fn add_data(&mut self, data: DataSectionReader<'a>) -> Result<(), BinaryReaderError> {
        for segment in data {
            let segment = segment?;
            if let DataKind::Active { memory_index: 0, offset_expr } = segment.kind
                && let Some(Constant::Integer(address)) = value(&offset_expr)?
            {
                self.segments.push((address.cast_unsigned() & u64::from(u32::MAX), segment.data));
            }
        }
        self.segments.sort_by_key(|(address, _)| *address);
        Ok(())
    }

    /// The constants of these functions, the most important ones first.
    pub(super) fn of(&self, functions: impl ExactSizeIterator<Item = u32>) -> Vec<FunctionConstants> {
        let limit = (MAX_ALL_CONSTANTS / functions.len().max(1)).min(MAX_CONSTANTS);
        let mut visits = MAX_VISITS;
        let mut visited_for = vec![0; self.functions.len()];
        let exports = functions.zip(1..);
        exports
            .map(|(function, nth)| self.listed(&self.reachable(function, nth, &mut visited_for, &mut visits), limit))
            .collect()
    }

    /// A function and those that it can reach, nearest ones first. `visited_for` has the export for which a function was visited last.
    fn reachable(&self, function: u32, nth: usize, visited_for: &mut [usize], visits: &mut usize) -> Vec<&Code> {
        let mut pending = VecDeque::from([function]);
        let mut found = vec![];
        let mut has_table = false;
        while let Some(function) = pending.pop_front() {
            let place = function as usize;
            let Some(code) = self.functions.get(place) else { continue };
            if std::mem::replace(&mut visited_for[place], nth) == nth {
                continue;
            }
            let adds_table = code.calls_table && !has_table;
            let cost = 1 + code.entries() + if adds_table { self.table.len() } else { 0 };
            let Some(left) = visits.checked_sub(cost) else { break };
            *visits = left;
            found.push(code);
            pending.extend(&code.callees);
            if adds_table {
                has_table = true;
                pending.extend(&self.table);
            }
        }
        found
    }

    fn listed(&self, functions: &[&Code], limit: usize) -> FunctionConstants {
        let mut list = List { limit, seen: HashSet::new(), found: FunctionConstants::default() };
        for wanted in [Rank::Compared, Rank::Used, Rank::Table, Rank::Lane] {
            for code in functions {
                let constants = code.constants.iter().filter(|(rank, _)| *rank == wanted);
                constants.for_each(|(_, constant)| list.add(*constant));
                match wanted {
                    Rank::Used => code.globals.iter().for_each(|global| self.global(*global, &mut list)),
                    Rank::Table => code.loads.iter().for_each(|load| self.table(*load, &mut list)),
                    Rank::Compared | Rank::Lane => {}
                }
            }
        }
        list.found
    }

    fn global(&self, index: u32, list: &mut List) {
        if let Some(Some(constant)) = self.globals.get(index as usize) {
            list.add(*constant);
        }
    }

    /// Adds the elements from an address on, if the module initialises the memory there.
    fn table(&self, (address, element): (u64, Element), list: &mut List) {
        let after = self.segments.partition_point(|(start, _)| *start <= address);
        let Some((start, bytes)) = after.checked_sub(1).and_then(|before| self.segments.get(before)) else { return };
        let Some(rest) = usize::try_from(address - start).ok().and_then(|offset| bytes.get(offset..)) else { return };
        if !(address - start).is_multiple_of(element.size() as u64) {
            return;
        }
        let elements = rest.chunks_exact(element.size()).take(TABLE_ELEMENTS);
        elements.for_each(|bytes| list.add(element.decode(bytes)));
    }
}

/// Collects distinct constants up to a number of each kind.
struct List {
    limit: usize,
    seen: HashSet<Constant>,
    found: FunctionConstants,
}

impl List {
    fn add(&mut self, constant: Constant) {
        let is_full = match constant {
            Constant::Integer(_) => self.found.integers.len() >= self.limit,
            Constant::Float(_) => self.found.float_bits.len() >= self.limit,
        };
        if is_full || !constant.is_notable() || !self.seen.insert(constant) {
            return;
        }
        match constant {
            Constant::Integer(integer) => self.found.integers.push(integer),
            Constant::Float(bits) => self.found.float_bits.push(bits),
        }
    }
}

/// Reads the instructions of a function.
#[derive(Default)]
struct Scanner {
    code: Code,
    places: HashMap<Constant, usize>,
    seen_callees: HashSet<u32>,
    seen_globals: HashSet<u32>,
    seen_loads: HashSet<(u64, Element)>,
    /// The number of the instruction.
    now: usize,
    /// The last constants, and the numbers of their instructions.
    recent: VecDeque<(usize, Constant)>,
    /// The integer from which a value was counted last, and the number of the instruction: `value - 100`.
    offset: Option<(usize, i64)>,
}

impl Scanner {
    #[expect(clippy::wildcard_enum_match_arm, reason = "few instructions have constants, or show what they are for")]
    fn add(&mut self, operator: &Operator<'_>) {
        self.now += 1;
        while self.recent.front().is_some_and(|(then, _)| then + WINDOW < self.now) {
            self.recent.pop_front();
        }
        match operator {
            Operator::I32Const { value } => {
                if *value < 0 {
                    self.constant(Constant::Integer(value.cast_unsigned().into()));
                }
                self.constant(Constant::Integer((*value).into()));
            }
            Operator::I64Const { value } => self.constant(Constant::Integer(*value)),
            Operator::F32Const { value } => self.constant(Constant::float(f32::from_bits(value.bits()).into())),
            Operator::F64Const { value } => self.constant(Constant::Float(value.bits())),
            Operator::V128Const { value } => self.lanes(value.bytes()),
            Operator::I32Add | Operator::I64Add => self.count_from(i64::checked_neg),
            Operator::I32Sub | Operator::I64Sub => self.count_from(Some),
            Operator::BrTable { targets } => self.branches(targets.len()),
            Operator::Call { function_index }
            | Operator::ReturnCall { function_index }
            | Operator::RefFunc { function_index } => self.call(*function_index),
            Operator::CallIndirect { .. } | Operator::ReturnCallIndirect { .. } => self.code.calls_table = true,
            Operator::GlobalGet { global_index } => self.global(*global_index),
            _ if is_unsigned_comparison(operator) => {
                self.range();
                self.compare();
            }
            _ if is_comparison(operator) => self.compare(),
            _ => {
                if let Some((element, offset)) = load(operator) {
                    self.load(element, offset);
                }
            }
        }
    }

    fn constant(&mut self, constant: Constant) {
        self.record(Rank::Used, constant);
        self.recent.push_back((self.now, constant));
    }

    fn record(&mut self, rank: Rank, constant: Constant) {
        if let Some(place) = self.places.get(&constant) {
            let known = &mut self.code.constants[*place].0;
            *known = rank.min(*known);
        } else if self.code.constants.len() < MAX_ENTRIES {
            self.places.insert(constant, self.code.constants.len());
            self.code.constants.push((rank, constant));
        }
    }

    fn compare(&mut self) {
        for constant in self.recent.iter().map(|(_, constant)| *constant).collect::<Vec<_>>() {
            self.record(Rank::Compared, constant);
        }
    }

    /// After `value + constant` or `value - constant`: what is compared next counts from a constant.
    fn count_from(&mut self, origin: impl Fn(i64) -> Option<i64>) {
        if let Some((then, Constant::Integer(constant))) = self.recent.back()
            && then + 1 == self.now
            && let Some(origin) = origin(*constant)
        {
            self.offset = Some((self.now, origin));
        }
    }

    fn origin(&self) -> Option<i64> {
        self.offset.filter(|(then, _)| then + WINDOW >= self.now).map(|(_, origin)| origin)
    }

    /// Compilers test `100 <= value < 105` as `value - 100 < 5`, without signs.
    fn range(&mut self) {
        let length = self.recent.back().copied();
        if let (Some(origin), Some((_, Constant::Integer(length)))) = (self.origin(), length) {
            let end = origin.checked_add(length).map(Constant::Integer);
            [Some(Constant::Integer(origin)), end]
                .into_iter()
                .flatten()
                .for_each(|one| self.record(Rank::Compared, one));
        }
    }

    fn branches(&mut self, targets: u32) {
        let origin = self.origin().unwrap_or(0);
        for target in 0..=targets.min(BRANCH_TARGETS) {
            if let Some(value) = origin.checked_add(target.into()) {
                self.record(Rank::Compared, Constant::Integer(value));
            }
        }
    }

    fn call(&mut self, function: u32) {
        if self.seen_callees.len() < MAX_ENTRIES && self.seen_callees.insert(function) {
            self.code.callees.push(function);
        }
    }

    fn global(&mut self, global: u32) {
        if self.seen_globals.len() < MAX_ENTRIES && self.seen_globals.insert(global) {
            self.code.globals.push(global);
        }
    }

    /// A table is at the constant part of an address, which is in the instruction or added before it.
    fn load(&mut self, element: Element, offset: u64) {
        let integer = |(_, constant): &(usize, Constant)| match constant {
            Constant::Integer(integer) => Some(integer.cast_unsigned() & u64::from(u32::MAX)),
            Constant::Float(_) => None,
        };
        let bases: Vec<u64> = std::iter::once(0).chain(self.recent.iter().filter_map(integer)).collect();
        for base in bases {
            let load = (base.saturating_add(offset), element);
            if self.seen_loads.len() < MAX_ENTRIES && self.seen_loads.insert(load) {
                self.code.loads.push(load);
            }
        }
    }

    fn lanes(&mut self, bytes: &[u8; 16]) {
        for element in [Element::Signed(4), Element::F64, Element::F32, Element::Signed(8), Element::Signed(2)] {
            for lane in bytes.chunks_exact(element.size()) {
                self.record(Rank::Lane, element.decode(lane));
            }
        }
    }
}

/// The value of an initialisation that is one constant.
fn value(init: &ConstExpr<'_>) -> Result<Option<Constant>, BinaryReaderError> {
    let mut operators = init.get_operators_reader();
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are no constants of a type that functions take")]
    let value = match operators.read()? {
        Operator::I32Const { value } => Some(Constant::Integer(value.into())),
        Operator::I64Const { value } => Some(Constant::Integer(value)),
        Operator::F32Const { value } => Some(Constant::float(f32::from_bits(value.bits()).into())),
        Operator::F64Const { value } => Some(Constant::Float(value.bits())),
        _ => None,
    };
    Ok(value)
}

fn is_unsigned_comparison(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::I32LtU
            | Operator::I32GtU
            | Operator::I32LeU
            | Operator::I32GeU
            | Operator::I64LtU
            | Operator::I64GtU
            | Operator::I64LeU
            | Operator::I64GeU
    )
}

fn is_comparison(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::I32Eqz
            | Operator::I32Eq
            | Operator::I32Ne
            | Operator::I32LtS
            | Operator::I32GtS
            | Operator::I32LeS
            | Operator::I32GeS
            | Operator::I64Eqz
            | Operator::I64Eq
            | Operator::I64Ne
            | Operator::I64LtS
            | Operator::I64GtS
            | Operator::I64LeS
            | Operator::I64GeS
            | Operator::F32Eq
            | Operator::F32Ne
            | Operator::F32Lt
            | Operator::F32Gt
            | Operator::F32Le
            | Operator::F32Ge
            | Operator::F64Eq
            | Operator::F64Ne
            | Operator::F64Lt
            | Operator::F64Gt
            | Operator::F64Le
            | Operator::F64Ge
            | Operator::F32Min
            | Operator::F32Max
            | Operator::F64Min
            | Operator::F64Max
    )
}

/// The elements that an instruction loads, and its offset.
#[expect(clippy::wildcard_enum_match_arm, reason = "others load no scalar")]
fn load(operator: &Operator<'_>) -> Option<(Element, u64)> {
    let (element, memarg) = match operator {
        Operator::I32Load { memarg } | Operator::I64Load32S { memarg } => (Element::Signed(4), memarg),
        Operator::I64Load { memarg } => (Element::Signed(8), memarg),
        Operator::F32Load { memarg } => (Element::F32, memarg),
        Operator::F64Load { memarg } => (Element::F64, memarg),
        Operator::I32Load8S { memarg } | Operator::I64Load8S { memarg } => (Element::Signed(1), memarg),
        Operator::I32Load8U { memarg } | Operator::I64Load8U { memarg } => (Element::Unsigned(1), memarg),
        Operator::I32Load16S { memarg } | Operator::I64Load16S { memarg } => (Element::Signed(2), memarg),
        Operator::I32Load16U { memarg } | Operator::I64Load16U { memarg } => (Element::Unsigned(2), memarg),
        Operator::I64Load32U { memarg } => (Element::Unsigned(4), memarg),
        _ => return None,
    };
    Some((element, memarg.offset))
}

#[cfg(test)]
mod tests {
    use super::super::inspect::inspect;
    use crate::{limits::ModuleLimits, protocol::FunctionConstants};

    fn constants(text: &str) -> Vec<FunctionConstants> {
        let binary = wat::parse_str(text).expect("the text is a module");
        let info = inspect(&binary, &ModuleLimits::default()).expect("a module within the limits");
        info.functions.into_iter().map(|function| function.constants).collect()
    }

    #[test]
    fn constants_are_those_of_the_functions_that_an_export_reaches() {
        let module = r#"(module (table funcref (elem $indirect))
            (global $g f64 (f64.const 6.5))
            (func $other (result i64) (i64.const 99))
            (func $indirect (result i32) (i32.const 77))
            (func $inner (param f32) (result i32) (f32.lt (local.get 0) (f32.const 0.25)))
            (func (export "f") (param i32) (result i32)
                (i32.add (i32.const 1000) (i32.eq (local.get 0) (i32.const 123456789)))
                (drop (call $inner (f32.const 3))) (drop (global.get $g)))
            (func (export "g") (result i32) (call_indirect (result i32) (i32.const 0))))"#;
        let [f, g] = &constants(module)[..] else { panic!("two functions are exported") };
        assert_eq!(f.integers, [1000, 123_456_789]);
        assert_eq!(f.floats().collect::<Vec<_>>(), [0.25, 3.0, 6.5]);
        assert_eq!(g.integers, [77]);
    }

    #[test]
    fn what_is_compared_is_first() {
        let module = r#"(module (func (export "f") (param i64) (result i64)
            (local.set 0 (i64.mul (local.get 0) (i64.const 31)))
            (local.set 0 (i64.add (local.get 0) (i64.const 17)))
            (local.set 0 (i64.xor (local.get 0) (i64.const 18)))
            (local.set 0 (i64.xor (local.get 0) (i64.const 19)))
            (if (i64.lt_s (local.get 0) (i64.const -5)) (then (return (i64.const 3)))) (local.get 0)))"#;
        let integers = constants(module)[0].integers.clone();
        let (compared, used) = integers.split_at(integers.len() - 4);
        assert_eq!(used, [31, 17, 18, 3]);
        assert!(compared.contains(&-5) && compared.contains(&19), "{compared:?}");
    }

    #[test]
    fn a_range_that_is_tested_by_one_comparison_has_both_ends() {
        let module = r#"(module (func (export "f") (param i32) (result i32)
            (i32.lt_u (i32.add (local.get 0) (i32.const -1000)) (i32.const 50))))"#;
        let integers = &constants(module)[0].integers;
        assert!([1000, 1050].iter().all(|end| integers.contains(end)), "{integers:?}");
    }

    #[test]
    fn the_targets_of_a_branch_table_are_constants() {
        let module = r#"(module (func (export "f") (param i32) (result i32)
            (block (block (br_table 0 1 0 (i32.sub (local.get 0) (i32.const 500)))) (return (i32.const 7))) (i32.const 8)))"#;
        let integers = &constants(module)[0].integers;
        assert!([500, 501, 502, 7, 8].iter().all(|value| integers.contains(value)), "{integers:?}");
    }

    #[test]
    fn elements_of_tables_in_memory_are_constants() {
        let module = r#"(module (memory 1) (data (i32.const 1024) "\00\00\00\00\00\00\04\40\00\00\00\00\00\00\14\40")
            (data (i32.const 2048) "\10\27\00\00\20\4e\00\00")
            (func (export "f") (param i32) (result f64)
                (f64.load offset=1024 (i32.shl (local.get 0) (i32.const 3))))
            (func (export "g") (param i32) (result i32)
                (i32.load (i32.add (i32.shl (local.get 0) (i32.const 2)) (i32.const 2048)))))"#;
        let [f, g] = &constants(module)[..] else { panic!("two functions are exported") };
        assert_eq!(f.floats().collect::<Vec<_>>(), [2.5, 5.0]);
        assert!(g.integers.ends_with(&[10_000, 20_000]), "{:?}", g.integers);
    }

    #[test]
    fn a_negative_constant_of_32_bits_is_also_one_without_sign() {
        let module =
            r#"(module (func (export "f") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 0x85ebca6b))))"#;
        assert_eq!(constants(module)[0].integers, [0x85eb_ca6b, -2_048_144_789]);
    }

    #[test]
    fn exports_of_large_modules_share_the_constants() {
        let exports: Vec<_> = (0..2000).map(|nth| format!("(export \"f{nth}\" (func $f))")).collect();
        let code: Vec<_> = (0..2000).map(|nth| format!("(drop (i32.const {}))", 100 + nth)).collect();
        let found = constants(&format!("(module (func $f {}) {})", code.concat(), exports.concat()));
        assert!(found.iter().all(|function| function.integers.len() == (1 << 15) / 2000));
    }
}
