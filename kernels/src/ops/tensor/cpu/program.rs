//! Evaluates scalar functions over blocks of elements: each instruction is one loop over the blocks of its operands.

use accelerd_tensor::{
    Dtype,
    scalar::{Function, Inst, Value, ValueId},
};

use super::{cast::cast, instruction};

/// Most elements of a block.
const MAX_BLOCK: usize = 1024;
const MIN_BLOCK: usize = 128;
/// The bytes that the registers of a block may fill: a part of the L2 cache, and the L1 cache for all but long functions.
const BLOCK_BYTES: usize = 48 << 10;

/// A function with a register for each value; values that are not alive at the same time share registers.
pub(super) struct Program {
    params: Vec<Dtype>,
    values: Vec<Value>,
    results: Vec<ValueId>,
    /// The register of each value.
    registers: Vec<usize>,
    register_count: usize,
    block: usize,
}

/// The parameters of a function for one block.
pub(super) trait Source {
    /// The elements of a parameter where they lie, if they are adjacent, aligned, and stay as they are until the results are stored.
    fn borrow(&self, param: usize) -> Option<&[u8]>;
    /// Copies the elements of a parameter.
    fn load(&self, param: usize, to: &mut [u8]);
    /// Writes the positions of the elements in their iteration space.
    fn index(&self, to: &mut [i64]);
}

/// Memory of the registers of a program.
pub(super) struct Registers {
    /// Elements of a register.
    len: usize,
    /// Empty until they are written.
    of: Vec<Vec<u64>>,
}

impl Program {
    pub(super) fn new(function: &Function) -> Self {
        let values = function.values().to_vec();
        let (registers, register_count) = allocate(&values, function.results());
        let bytes: usize = values.iter().map(|value| value.dtype.size()).sum();
        let alive = register_count.max(1) * bytes.div_ceil(values.len().max(1)).max(1);
        let block = (BLOCK_BYTES / alive).clamp(MIN_BLOCK, MAX_BLOCK);
        let block = 1 << block.ilog2();
        let params = function.params().to_vec();
        let results = function.results().to_vec();
        Self { params, values, results, registers, register_count, block }
    }

    /// The most elements of a block, a power of two.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    pub(super) fn params(&self) -> &[Dtype] {
        &self.params
    }

    pub(super) fn result_type(&self, nth: usize) -> Dtype {
        self.values[self.results[nth].index()].dtype
    }

    pub(super) fn result_count(&self) -> usize {
        self.results.len()
    }

    /// Returns true if the result is the only parameter.
    pub(super) fn is_identity(&self) -> bool {
        self.results.len() == 1 && matches!(self.values[..], [Value { inst: Inst::Param(0), .. }])
    }

    /// An estimate of the work of an element, in multiply-adds.
    pub(super) fn cost(&self) -> u64 {
        let cost = |value: &Value| match value.inst {
            Inst::Literal(_) => 0,
            Inst::Param(_) | Inst::Index | Inst::Select(..) | Inst::Cast(_) => 4,
            Inst::Unary(op, _) if op.result(Dtype::I64).is_some() => 4,
            Inst::Unary(..) => 64,
            Inst::Binary(op, ..) if op.result(Dtype::I64).is_some() => 4,
            Inst::Binary(..) => 128,
        };
        self.values.iter().map(cost).sum::<u64>().max(1)
    }

    /// Registers for as many elements; constants are in place.
    pub(super) fn registers(&self, len: usize) -> Registers {
        let mut registers = Registers { len, of: vec![vec![]; self.register_count] };
        for (value, register) in self.values.iter().zip(&self.registers) {
            if let Inst::Literal(literal) = value.inst {
                registers.of[*register] = vec![repeated(literal.bits(), value.dtype.size()); len];
            }
        }
        registers
    }

    /// Evaluates the function for `len` elements of the source.
    pub(super) fn run(&self, registers: &mut Registers, len: usize, source: &impl Source) {
        for (index, value) in self.values.iter().enumerate() {
            let is_there = match value.inst {
                Inst::Literal(_) => true,
                Inst::Param(nth) => source.borrow(nth as usize).is_some(),
                Inst::Index | Inst::Unary(..) | Inst::Binary(..) | Inst::Select(..) | Inst::Cast(_) => false,
            };
            if is_there {
                continue;
            }
            let mut register = std::mem::take(&mut registers.of[self.registers[index]]);
            register.resize(registers.len, 0);
            let out: &mut [u8] = bytemuck::cast_slice_mut(&mut register);
            self.compute(value, registers, len, source, &mut out[..len * value.dtype.size()]);
            registers.of[self.registers[index]] = register;
        }
    }

    fn compute(&self, value: &Value, registers: &Registers, len: usize, source: &impl Source, out: &mut [u8]) {
        let operand = |id: ValueId| self.value(id, registers, len, source);
        let dtype = |id: ValueId| self.values[id.index()].dtype;
        match value.inst {
            Inst::Param(nth) => source.load(nth as usize, out),
            Inst::Index => source.index(bytemuck::cast_slice_mut(out)),
            Inst::Literal(_) => {}
            Inst::Unary(op, a) => instruction::unary(op, dtype(a), operand(a), out),
            Inst::Binary(op, a, b) => instruction::binary(op, dtype(a), operand(a), operand(b), out),
            Inst::Select(condition, a, b) => {
                instruction::select(value.dtype.size(), operand(condition), operand(a), operand(b), out);
            }
            Inst::Cast(a) => cast(dtype(a), value.dtype, operand(a), out),
        }
    }

    /// A result of the last run.
    pub(super) fn result<'a>(
        &self,
        nth: usize,
        registers: &'a Registers,
        len: usize,
        source: &'a impl Source,
    ) -> &'a [u8] {
        self.value(self.results[nth], registers, len, source)
    }

    fn value<'a>(&self, id: ValueId, registers: &'a Registers, len: usize, source: &'a impl Source) -> &'a [u8] {
        let value = &self.values[id.index()];
        if let Inst::Param(nth) = value.inst
            && let Some(bytes) = source.borrow(nth as usize)
        {
            return bytes;
        }
        let register: &[u8] = bytemuck::cast_slice(&registers.of[self.registers[id.index()]]);
        &register[..len * value.dtype.size()]
    }
}

/// The bytes of an element as often as they fit.
fn repeated(bits: u64, size: usize) -> u64 {
    match size {
        1 => (bits & 0xff) * 0x0101_0101_0101_0101,
        2 => (bits & 0xffff) * 0x0001_0001_0001_0001,
        4 => (bits & 0xffff_ffff) * 0x0000_0001_0000_0001,
        _ => bits,
    }
}

/// The register of each value, and how many there are. An instruction never writes to a register that it reads; constants and results
/// keep theirs.
fn allocate(values: &[Value], results: &[ValueId]) -> (Vec<usize>, usize) {
    let mut last_uses = vec![0; values.len()];
    for (index, value) in values.iter().enumerate() {
        value.inst.operands().for_each(|operand| last_uses[operand.index()] = index);
    }
    // A constant is kept from the start: registers are filled once.
    let is_literal = |value: &Value| matches!(value.inst, Inst::Literal(_));
    for (index, _) in values.iter().enumerate().filter(|(_, value)| is_literal(value)) {
        last_uses[index] = usize::MAX;
    }
    for result in results {
        last_uses[result.index()] = usize::MAX;
    }
    let mut registers = vec![0; values.len()];
    let mut count = 0;
    for (index, _) in values.iter().enumerate().filter(|(_, value)| is_literal(value)) {
        registers[index] = count;
        count += 1;
    }
    let mut free = vec![];
    for (index, value) in values.iter().enumerate().filter(|(_, value)| !is_literal(value)) {
        registers[index] = free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        for operand in value.inst.operands().map(ValueId::index).filter(|operand| last_uses[*operand] == index) {
            // An operand may occur twice.
            if !free.contains(&registers[operand]) {
                free.push(registers[operand]);
            }
        }
    }
    (registers, count)
}
