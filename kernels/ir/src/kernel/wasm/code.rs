//! The code of a function under construction.

use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, MemArgTarget, ValType};

/// Instructions, and the local variables that they use.
#[derive(Clone)]
pub(super) struct Code {
    bytes: Vec<u8>,
    params: u32,
    locals: Vec<ValType>,
    /// Variables whose value is no longer needed.
    free: Vec<(ValType, u32)>,
    /// Number of blocks that are open.
    depth: u32,
}

/// An open block, by its depth: the target of a branch.
#[derive(Clone, Copy)]
pub(super) struct Target(u32);

impl Code {
    pub(super) fn new(params: usize) -> Self {
        let params = u32::try_from(params).expect("few parameters");
        Self { bytes: vec![], params, locals: vec![], free: vec![], depth: 0 }
    }

    pub(super) fn sink(&mut self) -> InstructionSink<'_> {
        InstructionSink::new(&mut self.bytes)
    }

    /// A variable, 0 to begin with.
    pub(super) fn local(&mut self, ty: ValType) -> u32 {
        self.locals.push(ty);
        self.params + u32::try_from(self.locals.len() - 1).expect("few variables")
    }

    /// A variable with any value, until it is released.
    pub(super) fn scratch(&mut self, ty: ValType) -> u32 {
        match self.free.iter().rposition(|(free, _)| *free == ty) {
            Some(index) => self.free.swap_remove(index).1,
            None => self.local(ty),
        }
    }

    pub(super) fn release(&mut self, ty: ValType, local: u32) {
        self.free.push((ty, local));
    }

    /// Opens a block; a branch goes to its end.
    pub(super) fn block(&mut self) -> Target {
        self.sink().block(BlockType::Empty);
        self.open()
    }

    /// Opens a loop; a branch goes to its start.
    pub(super) fn start_loop(&mut self) -> Target {
        self.sink().loop_(BlockType::Empty);
        self.open()
    }

    /// Opens a block that runs if the i32 on the stack is not 0.
    pub(super) fn start_if(&mut self) {
        self.sink().if_(BlockType::Empty);
        self.open();
    }

    /// As [`Self::start_if`], with a value.
    pub(super) fn start_if_value(&mut self, ty: ValType) {
        self.sink().if_(BlockType::Result(ty));
        self.open();
    }

    pub(super) fn start_else(&mut self) {
        self.sink().else_();
    }

    pub(super) fn end(&mut self) {
        self.sink().end();
        self.depth -= 1;
    }

    fn open(&mut self) -> Target {
        self.depth += 1;
        Target(self.depth)
    }

    pub(super) fn branch(&mut self, to: Target) {
        let distance = self.depth - to.0;
        self.sink().br(distance);
    }

    pub(super) fn branch_if(&mut self, to: Target) {
        let distance = self.depth - to.0;
        self.sink().br_if(distance);
    }

    pub(super) fn finish(mut self) -> Function {
        self.sink().end();
        let mut function = Function::new_with_locals_types(self.locals);
        function.raw(self.bytes);
        function
    }
}

/// The place of a scalar of `size` bytes at an offset from the address on the stack.
pub(super) fn memory(offset: u32, size: usize) -> MemArg {
    let align = size.trailing_zeros();
    MemArg { offset: offset.into(), align, target: MemArgTarget::Memory(0), ordering: None }
}
