//! The columns of the table of operations.

use crate::{Dtype, Kind};

/// The function of f64 of an operation of one operand.
pub(super) type UnaryFunction = fn(f64) -> f64;

/// The function of f64 of an operation of two operands.
pub(super) type BinaryFunction = fn(f64, f64) -> f64;

/// The columns of the table. `F` is the type of an elementary function of f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<F> {
    /// Name of the operation, and its default in C++ and in the dialects of Python.
    pub(crate) name: &'static str,
    takes: Operands,
    is_predicate: bool,
    cpp: [Spelling; 3],
    /// The function of the prelude that takes the place of an elementary function of f32 if its result is rounded to 16 bits.
    pub(crate) cpp_for_16_bits: Option<&'static str>,
    /// Greatest error in CUDA's math library in units of the last place, of f32 or f64, whichever is greater, as the CUDA C++ Programming
    /// Guide states it; 0 if the result is rounded correctly.
    pub(crate) max_ulp: u32,
    pub(super) cost: Cost,
    /// The function of Python's module `math`.
    pub(crate) python: Option<(&'static str, MathResult)>,
    /// The function of Warp on floating-point scalars.
    pub(crate) warp: Option<&'static str>,
    /// The elementary function.
    pub(crate) function: Option<F>,
}

/// The types that an operation takes. 16-bit floating-point types, which are storage types, are never among them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operands {
    Any,
    /// Integers and floating-point numbers.
    Numbers,
    /// Signed integers and floating-point numbers.
    Signed,
    Floats,
    Integers,
    /// Integers and bool.
    Bits,
}

/// The form of an operation in CUDA C++.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spelling {
    /// Call of the function of the math library; that of f32 ends in f.
    Call(&'static str),
    /// Operator between two operands. Integers are computed unsigned, so that they wrap.
    Infix(&'static str),
    /// Expression of the operands `{a}` and `{b}`; `{ua}` is the first as an unsigned integer, `{t}` the type of both.
    Text(&'static str),
}

/// Length of the code of an operation on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    Instruction,
    Division,
    Function,
}

/// The result of a function of Python's module `math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathResult {
    /// The result of the operation.
    Value,
    /// The result of the operation; raises an exception if it is NaN or infinite although no operand is.
    Checked,
    /// The result of the operation as an integer; raises an exception if it is NaN or infinite.
    Integer,
}

/// An operation that is rounded correctly. It takes one instruction, and its result has the type of its operands.
pub(super) const fn primitive<F: Copy>(name: &'static str, takes: Operands, spelling: Spelling) -> Row<F> {
    Row {
        name,
        takes,
        is_predicate: false,
        cpp: [spelling; 3],
        cpp_for_16_bits: None,
        max_ulp: 0,
        cost: Cost::Instruction,
        python: None,
        warp: None,
        function: None,
    }
}

/// A predicate: an operation whose result is a bool.
pub(super) const fn predicate<F: Copy>(name: &'static str, takes: Operands, spelling: Spelling) -> Row<F> {
    Row { is_predicate: true, ..primitive(name, takes, spelling) }
}

/// An elementary function of one operand.
pub(super) const fn elementary(name: &'static str, max_ulp: u32, function: UnaryFunction) -> Row<UnaryFunction> {
    approximated(name, max_ulp, function)
}

/// An elementary function of two operands.
pub(super) const fn elementary_of_two(
    name: &'static str,
    max_ulp: u32,
    function: BinaryFunction,
) -> Row<BinaryFunction> {
    approximated(name, max_ulp, function)
}

const fn approximated<F: Copy>(name: &'static str, max_ulp: u32, function: F) -> Row<F> {
    let row = primitive(name, Operands::Floats, Spelling::Call(name));
    Row { max_ulp, cost: Cost::Function, function: Some(function), ..row }
}

impl<F: Copy> Row<F> {
    /// Replaces the spelling for integers and bool.
    pub(super) const fn integers(self, spelling: Spelling) -> Self {
        Self { cpp: [spelling, spelling, self.cpp[Kind::Float as usize]], ..self }
    }

    /// Replaces the spelling for bool.
    pub(super) const fn bools(self, spelling: Spelling) -> Self {
        Self { cpp: [spelling, self.cpp[Kind::Integer as usize], self.cpp[Kind::Float as usize]], ..self }
    }

    pub(super) const fn for_16_bits(self, function: &'static str) -> Self {
        Self { cpp_for_16_bits: Some(function), ..self }
    }

    pub(super) const fn cost(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }

    /// Adds the function of `math` that has the name of the operation.
    pub(super) const fn python(self, result: MathResult) -> Self {
        self.python_as(self.name, result)
    }

    pub(super) const fn python_as(self, name: &'static str, result: MathResult) -> Self {
        Self { python: Some((name, result)), ..self }
    }

    /// Adds the function of Warp that has the name of the operation.
    pub(super) const fn warp(self) -> Self {
        self.warp_as(self.name)
    }

    pub(super) const fn warp_as(self, name: &'static str) -> Self {
        Self { warp: Some(name), ..self }
    }

    /// The type of the result, or `None` if operands of this type are not supported.
    pub(super) fn result(&self, operands: Dtype) -> Option<Dtype> {
        let result = if self.is_predicate { Dtype::Bool } else { operands };
        let is_taken = operands.compute() == operands && self.takes.has(operands);
        is_taken.then_some(result)
    }

    /// The form in CUDA C++ for operands of a type that the operation takes.
    pub(crate) fn spelling(&self, operands: Dtype) -> Spelling {
        self.cpp[operands.kind() as usize]
    }

    /// The functions of CUDA's math library that emitted code calls.
    pub(super) fn cuda_calls(&self) -> impl Iterator<Item = &'static str> {
        self.cpp.into_iter().filter_map(|spelling| match spelling {
            Spelling::Call(name) => Some(name),
            Spelling::Infix(_) | Spelling::Text(_) => None,
        })
    }
}

impl Operands {
    fn has(self, dtype: Dtype) -> bool {
        match self {
            Self::Any => true,
            Self::Numbers => dtype != Dtype::Bool,
            Self::Signed => dtype.is_signed(),
            Self::Floats => dtype.is_float(),
            Self::Integers => dtype.is_integer(),
            Self::Bits => !dtype.is_float(),
        }
    }
}

impl Cost {
    /// In instructions, about.
    pub(super) fn code_length(self) -> usize {
        match self {
            Self::Instruction => 1,
            Self::Division => 8,
            Self::Function => 16,
        }
    }
}
